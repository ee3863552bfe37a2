//! Every known form of a label with its values worked out by hand from the grammar, and hostile text.

use super::*;
use crate::inventory::Phase;
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

/// seqs:tokens:Σ N_Q²:Σ N_Q·N_KV:Σ N_KV
fn part(part: &Part) -> String {
    let Sums { nq2, nq_nkv, nkv } = part.sums;
    let counts = [or_dash(part.seqs), or_dash(part.tokens), or_dash(nq2), or_dash(nq_nkv), or_dash(nkv)];
    counts.join(":")
}

/// What a label was understood as, in one line.
fn told(label: &str) -> String {
    let step = |word: &str, step: &Step| {
        let rows = step.rows().map(|rows| match rows.padding {
            Padding::Told => rows.rows.to_string(),
            Padding::NotTold => format!("{}?", rows.rows),
        });
        let mut line = format!(
            "{word} {:?} {} {:?} total {} prefill {} decode {} graph {} q {} rows {}",
            step.source,
            step.phase,
            step.launch,
            part(&step.total),
            part(&step.prefill),
            part(&step.decode),
            or_dash(step.graph_batch),
            or_dash(step.q_len()),
            or_dash(rows),
        );
        if let Some(contexts) = &step.total.contexts {
            line += &format!(" ctx {:?}+{}", contexts.listed, contexts.more);
        }
        if let Some(spec) = step.spec {
            line += &format!(" spec {spec}");
        }
        if step.two_batch_overlap {
            line += " tbo";
        }
        for (key, value) in &step.other {
            line += &format!(" {key}={value}");
        }
        for problem in &step.problems {
            line += &format!(" !{}", problem.field);
        }
        line
    };
    match parse(label) {
        Parsed::Step(it) => step("step", &it),
        Parsed::Dummy(it) => step("dummy", &it),
        Parsed::Draft(it) => {
            let mut line = format!("draft {} {:?}", it.drafter, it.role);
            if let Some((index, of)) = it.step {
                line += &format!(" {index}/{of}");
            }
            line += &format!(
                " bs {} padded {} tok {} block {} graph {}",
                or_dash(it.batch),
                or_dash(it.padded_batch),
                or_dash(it.tokens),
                or_dash(it.block),
                it.graph
            );
            it.other.iter().fold(line, |line, (key, value)| format!("{line} {key}={value}"))
        }
        Parsed::Capture(it) => format!("capture {:?} {} {}", it.measure, it.size, it.mode),
        Parsed::Module(Module::Path { path, layer }) => format!("module {path} {}", or_dash(layer)),
        Parsed::Module(Module::CompiledGraph { hash }) => format!("compiled {hash}"),
        Parsed::NotAStep { profiler_step } => format!("no step {}", or_dash(profiler_step)),
        Parsed::Unknown { reason } => format!("unknown: {reason}"),
    }
}

/// Label, and what it says. Sums of N sequences were added up by hand: 7803² + 6918² = 108,745,533,
/// 6 prompts with Σ N_Q² = 59,768,832, 64 × 1025 = 65,600, 32 × 4² = 512, 4 × 65,536 = 262,144.
const FORMS: &[(&str, &str)] = &[
    // ATOM at HEAD, graph path.
    (
        "decode[bs=16]",
        "step Atom decode Graph total 16:-:-:-:- prefill 0:0:0:0:0 decode 16:-:-:-:- graph 16 q - rows -",
    ),
    (
        "decode[bs=64 tok=64 d=64]",
        "step Atom decode Graph total 64:64:-:-:- prefill 0:0:0:0:0 decode 64:64:-:-:- graph 64 q 1 rows 64",
    ),
    (
        "decode[bs=64/64 tok=64 d=64]",
        "step Atom decode Graph total 64:64:-:-:- prefill 0:0:0:0:0 decode 64:64:-:-:- graph 64 q 1 rows 64",
    ),
    (
        "decode[bs=117/128 tok=117 d=117]",
        "step Atom decode Graph total 117:117:-:-:- prefill 0:0:0:0:0 decode 117:117:-:-:- graph 128 q 1 rows 128",
    ),
    (
        "decode[bs=64 tok=64 d=64 sqsq=64 sqsk=65600 sk=65600]",
        "step Atom decode Graph total 64:64:64:65600:65600 prefill 0:0:0:0:0 decode 64:64:64:65600:65600 graph 64 q 1 \
         rows 64",
    ),
    (
        "decode[bs=30/32 tok=120 d=30 spec=3]",
        "step Atom decode Graph total 30:120:-:-:- prefill 0:0:0:0:0 decode 30:120:-:-:- graph 32 q 4 rows 128 spec 3",
    ),
    (
        "decode[bs=32 tok=128 d=32 spec=3 sqsq=512 sqsk=262144 sk=65536]",
        "step Atom decode Graph total 32:128:512:262144:65536 prefill 0:0:0:0:0 decode 32:128:512:262144:65536 \
         graph 32 q 4 rows 128 spec 3",
    ),
    // Two prompts in a decode step: sums of both phases in one, no query length, no padded rows.
    (
        "decode[bs=117/128 tok=400 p=2 d=115 sqsq=41227 sqsk=500000 sk=90000 tbo=1]",
        "step Atom mixed Graph total 117:400:41227:500000:90000 prefill 2:-:-:-:- decode 115:-:-:-:- graph 128 q - \
         rows 400? tbo",
    ),
    // Proposed names of the sums, in any order, with unknown fields.
    (
        "decode[bs=64 nkv=65600 nq2=64 tok=64 nqnkv=65600 d=64 moe=a2a fast]",
        "step Atom decode Graph total 64:64:64:65600:65600 prefill 0:0:0:0:0 decode 64:64:64:65600:65600 graph 64 q 1 \
         rows 64 moe=a2a fast=",
    ),
    (
        "decode[bs=2 tok=2 d=2 attn_sum_nq2=2 attn_sum_nq_nkv=30 attn_sum_nkv=30]",
        "step Atom decode Graph total 2:2:2:30:30 prefill 0:0:0:0:0 decode 2:2:2:30:30 graph 2 q 1 rows 2",
    ),
    // ATOM, eager path.
    (
        "prefill[bs=1 tok=1024 ctx=1024 sqsq=1048576 sqsk=1048576 sk=1024]",
        "step Atom prefill Eager total 1:1024:1048576:1048576:1024 prefill 1:1024:1048576:1048576:1024 \
         decode 0:0:0:0:0 graph - q - rows 1024 ctx [1024]+0",
    ),
    (
        "prefill[bs=2 tok=14721 ctx=[7803, 6918]]",
        "step Atom prefill Eager total 2:14721:-:-:14721 prefill 2:14721:-:-:14721 decode 0:0:0:0:0 graph - q - \
         rows 14721 ctx [7803, 6918]+0",
    ),
    (
        "prefill[bs=6 tok=17408 ctx=[4096, 4096, 4096]...+3 sqsq=59768832 sqsk=59768832 sk=17408 tbo=1]",
        "step Atom prefill Eager total 6:17408:59768832:59768832:17408 prefill 6:17408:59768832:59768832:17408 \
         decode 0:0:0:0:0 graph - q - rows 17408 ctx [4096, 4096, 4096]+3 tbo",
    ),
    (
        "eager_decode[bs=3 tok=3 ctx=[10, 20, 30]]",
        "step Atom decode Eager total 3:3:-:-:60 prefill 0:0:0:0:0 decode 3:3:-:-:60 graph - q 1 rows 3 \
         ctx [10, 20, 30]+0",
    ),
    // Dummies.
    (
        "dummy_decode[bs=1/8 tok=1 d=1]",
        "dummy Atom decode Graph total 1:1:-:-:- prefill 0:0:0:0:0 decode 1:1:-:-:- graph 8 q 1 rows 8",
    ),
    (
        "dummy_prefill[bs=1 tok=8192 ctx=8192]",
        "dummy Atom prefill Eager total 1:8192:-:-:8192 prefill 1:8192:-:-:8192 decode 0:0:0:0:0 graph - q - rows 8192 \
         ctx [8192]+0",
    ),
    (
        "dummy_eager_decode[bs=1]",
        "dummy Atom decode Eager total 1:-:-:-:- prefill 0:0:0:0:0 decode 1:-:-:-:- graph - q - rows -",
    ),
    // ATOM of March 2026.
    (
        "prefill_bs_2_ctxlens_tensor([7803, 6918], device='cuda:0', dtype=torch.int32)",
        "step AtomHistory prefill Eager total 2:-:-:-:14721 prefill 2:-:-:-:14721 decode 0:0:0:0:0 graph - q - rows - \
         ctx [7803, 6918]+0",
    ),
    (
        "prefill_bs_2_ctxlens_[7803 6918]",
        "step AtomHistory prefill Eager total 2:-:-:-:14721 prefill 2:-:-:-:14721 decode 0:0:0:0:0 graph - q - rows - \
         ctx [7803, 6918]+0",
    ),
    (
        "prefill_bs_9_ctxlens_tensor([1, 2, 3,  ..., 7, 8, 9])",
        "step AtomHistory prefill Eager total 9:-:-:-:- prefill 9:-:-:-:- decode 0:0:0:0:0 graph - q - rows - \
         ctx [1, 2, 3, 7, 8, 9]+3",
    ),
    (
        "decode_step_bs_16",
        "step AtomHistory decode NotTold total 16:-:-:-:- prefill 0:0:0:0:0 decode 16:-:-:-:- graph - q - rows -",
    ),
    // Drafters, old and new.
    ("draft[0/3 bs=16]", "draft draft Propose 0/3 bs 16 padded - tok - block - graph false"),
    ("dspark[bs=8 T=5]", "draft dspark Propose bs 8 padded - tok - block 5 graph false"),
    ("dspark_ctx_kv[bs=8 tok=40]", "draft dspark_ctx_kv KvWrite bs 8 padded - tok 40 block - graph false"),
    ("dspark_sched[bs=8]", "draft dspark_sched Schedule bs 8 padded - tok - block - graph false"),
    ("draft_kv[bs=8 tok=40]", "draft draft_kv KvWrite bs 8 padded - tok 40 block - graph false"),
    ("propose_eagle[0/3 tok=4 bs=1]", "draft eagle Propose 0/3 bs 1 padded - tok 4 block - graph false"),
    ("propose_eagle[1/3 tok=44 bs=44/48 graph]", "draft eagle Propose 1/3 bs 44 padded 48 tok 44 block - graph true"),
    ("propose_dspark[bs=44/44 graph T=5]", "draft dspark Propose bs 44 padded 44 tok - block 5 graph true"),
    ("propose_dspark[bs=44/48 T=5 graph x=1]", "draft dspark Propose bs 44 padded 48 tok - block 5 graph true x=1"),
    // vLLM.
    (
        "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)",
        "step VllmDetailed mixed NotTold total 46:8192:7475822:7705799:42919 prefill 9:8155:7475785:7671310:8430 \
         decode 37:37:37:34489:34489 graph - q - rows 8192?",
    ),
    (
        "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8193sqsq16sqsk8193)",
        "step VllmDetailed decode NotTold total 16:16:16:8193:8193 prefill 0:0:0:0:0 decode 16:16:16:8193:8193 graph - \
         q 1 rows 16?",
    ),
    (
        "execute_128_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq128sk65536sqsq512sqsk262144)",
        "step VllmDetailed decode NotTold total 32:128:512:262144:65536 prefill 0:0:0:0:0 \
         decode 32:128:512:262144:65536 graph - q 4 rows 128?",
    ),
    (
        "execute_context_2(14721)_generation_0(0)",
        "step VllmNative prefill NotTold total 2:14721:-:-:- prefill 2:14721:-:-:- decode 0:0:0:0:0 graph - q - \
         rows 14721?",
    ),
    (
        "execute_context_0(0)_generation_32(128)",
        "step VllmNative decode NotTold total 32:128:-:-:- prefill 0:0:0:0:0 decode 32:128:-:-:- graph - q 4 rows 128?",
    ),
    (
        "execute_context_2(6144)_generation_3(3)",
        "step VllmNative mixed NotTold total 5:6147:-:-:- prefill 2:6144:-:-:- decode 3:3:-:-:- graph - q - rows 6147?",
    ),
    // As found in a real trace: Σ tokens and Σ tokens², 888² = 788,544.
    (
        "execute_context_1(888_788544)_generation_0(0)",
        "step VllmNative prefill NotTold total 1:888:788544:-:- prefill 1:888:788544:-:- decode 0:0:0:0:0 graph - q - \
         rows 888?",
    ),
    // Reported by a user of another tool; 512 tokens of 3 requests cannot have squares that sum to 0.
    (
        "execute_context_3(512_0)_generation_0(0)",
        "step VllmNative prefill NotTold total 3:512:-:-:- prefill 3:512:-:-:- decode 0:0:0:0:0 graph - q - rows 512? \
         !sqsq",
    ),
    (
        "execute_new_2_cached_30",
        "step VllmOld unknown NotTold total 32:-:-:-:- prefill -:-:-:-:- decode -:-:-:-:- graph - q - rows - new=2 \
         cached=30",
    ),
    // SGLang.
    (
        "step[DECODE bs=64]",
        "step Sglang decode NotTold total 64:-:-:-:- prefill 0:0:0:0:0 decode 64:-:-:-:- graph - q - rows -",
    ),
    (
        "step[EXTEND bs=15 toks=15360]",
        "step Sglang prefill NotTold total 15:15360:-:-:- prefill 15:15360:-:-:- decode 0:0:0:0:0 graph - q - \
         rows 15360?",
    ),
    (
        "step[ extend bs=4 toks=512 ]",
        "step Sglang prefill NotTold total 4:512:-:-:- prefill 4:512:-:-:- decode 0:0:0:0:0 graph - q - rows 512?",
    ),
    (
        "step[DECODE bs=2 g_sq=2 g_sqsq=2 g_sqsk=30 g_sk=30]",
        "step Sglang decode NotTold total 2:2:2:30:30 prefill 0:0:0:0:0 decode 2:2:2:30:30 graph - q 1 rows 2?",
    ),
    (
        "step[DECODE bs=2 g_sqsq=2 g_sqsk=30 g_sk=30]",
        "step Sglang decode NotTold total 2:2:2:30:30 prefill 0:0:0:0:0 decode 2:2:2:30:30 graph - q 1 rows 2?",
    ),
    (
        "step[EXTEND bs=2 toks=12 c_sq=12 c_sqsq=80 c_sqsk=120 c_sk=20]",
        "step Sglang prefill NotTold total 2:12:80:120:20 prefill 2:12:80:120:20 decode 0:0:0:0:0 graph - q - rows 12?",
    ),
    (
        "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]",
        "step Sglang mixed NotTold total 2:6:26:52:20 prefill 1:5:25:40:8 decode 1:1:1:12:12 graph - q - rows 6?",
    ),
    (
        "step[MIXED bs=2]",
        "step Sglang mixed NotTold total 2:-:-:-:- prefill -:-:-:-:- decode -:-:-:-:- graph - q - rows -",
    ),
    (
        "step[EXTEND bs=1] c_sq=32 c_sk=64",
        "step Sglang prefill NotTold total 1:32:-:-:64 prefill 1:32:-:-:64 decode 0:0:0:0:0 graph - q - rows 32?",
    ),
    (
        "step[TARGET_VERIFY bs=8 toks=32]",
        "step Sglang decode NotTold total 8:32:-:-:- prefill 0:0:0:0:0 decode 8:32:-:-:- graph - q 4 rows 32?",
    ),
    (
        "step[IDLE bs=0]",
        "dummy Sglang unknown NotTold total 0:-:-:-:- prefill -:-:-:-:- decode -:-:-:-:- graph - q - rows -",
    ),
    ("step[DRAFT_EXTEND bs=4 toks=16]", "draft draft_extend Propose bs 4 padded - tok 16 block - graph false"),
    // Diffusion.
    (
        "execute_diffusion_1_256x256",
        "step Diffusion unknown NotTold total -:-:-:-:- prefill -:-:-:-:- decode -:-:-:-:- graph - q - rows - number=1 \
         size=256x256",
    ),
    // Captures.
    ("capture_32_DECODE", "capture Batch 32 DECODE"),
    ("capture_32_FULL", "capture Tokens 32 FULL"),
    ("capture_8192_PIECEWISE", "capture Tokens 8192 PIECEWISE"),
    ("capture_256_mixed_prefill", "capture Tokens 256 mixed_prefill"),
    ("capture_graph_bs_128", "capture Batch 128 "),
    // No steps.
    ("ProfilerStep#134", "no step 134"),
    ("model.layers.17.self_attn.qkv_proj", "module model.layers.17.self_attn.qkv_proj 17"),
    ("model.embed_tokens", "module model.embed_tokens -"),
    ("## Call CompiledFxGraph fud64jsrxcxliekg7lptyw24yz5k3oa65 ##", "compiled fud64jsrxcxliekg7lptyw24yz5k3oa65"),
    ("scheduler.run_batch", "no step -"),
    ("nccl:_all_gather_base", "no step -"),
    ("execute_model", "no step -"),
    ("capture_model", "no step -"),
    ("aten::index[0]", "no step -"),
    ("", "no step -"),
    // To be reported.
    ("decode[bs=117/128 tok=117", "unknown: the closing bracket is missing: the label was cut"),
    ("decode[tok=117]", "unknown: it has no bs field"),
    ("decode[bs=x]", "unknown: bs=x is not a count of 64 bits"),
    ("decode[bs=99999999999999999999]", "unknown: bs=99999999999999999999 is not a count of 64 bits"),
    ("prefill[bs=2 ctx=[1, 2", "unknown: the closing bracket is missing: the label was cut"),
    ("chunked_prefill[bs=4 tok=9]", "unknown: the kind `chunked_prefill` is not known"),
    ("step[WARP bs=4]", "unknown: the forward mode `WARP` is not known"),
    ("execute_7_context_1(sq7)", "unknown: `sk` is missing before `)`"),
    ("execute_context_1(888", "unknown: `)` is missing before ``"),
    ("capture_32", "unknown: `_` is missing before ``"),
];

#[test]
fn every_form_has_its_values() {
    for (label, expected) in FORMS {
        let expected: Vec<&str> = expected.split_whitespace().collect();
        let found = told(label);
        assert_eq!(found.split_whitespace().collect::<Vec<_>>(), expected, "{label}\n  {found}");
    }
}

#[test]
fn nothing_wraps() {
    // 65,536² is 0 in 32 bits: what ATOM wrote before its fix.
    for (label, problem) in [
        ("prefill[bs=1 tok=65536 ctx=65536 sqsq=0 sqsk=0 sk=65536]", "!sqsq !sqsk"),
        ("prefill[bs=1 tok=46342 ctx=46342 sqsq=-2147386332 sqsk=-2147386332 sk=46342]", "!sqsq !sqsk"),
        ("prefill[bs=1 tok=10 ctx=10 sqsq=101 sqsk=100 sk=10]", "!sqsq"),
        ("prefill[bs=2 tok=10 ctx=[6, 4] sqsq=52 sqsk=50 sk=9]", "!sk !sqsk"),
        ("decode[bs=4 tok=4 d=3]", "!d"),
        ("decode[bs=8/4 tok=8 d=8]", "!bs"),
        ("prefill[bs=3 tok=6 ctx=[1, 2]]", "!ctx"),
        ("prefill[bs=2 tok=60 ctx=[1, 2]]", "!ctx"),
    ] {
        assert!(told(label).ends_with(problem), "{label}: {}", told(label));
    }
    // A million tokens of one prompt: 10¹², and the largest numbers that a label can hold.
    let Parsed::Step(step) =
        parse("prefill[bs=1 tok=1000000 ctx=1000000 sqsq=1000000000000 sqsk=1000000000000 sk=1000000]")
    else {
        panic!("a step")
    };
    assert_eq!(step.total.sums.nq2, Some(1_000_000_000_000));
    assert!(step.problems.is_empty());
    let most = u64::MAX;
    let label = format!("decode[bs={most}/{most} tok={most} d={most} sqsq={0} sqsk={0} sk={0}]", u128::MAX);
    let Parsed::Step(step) = parse(&label) else { panic!("a step") };
    assert_eq!(step.total.sums, Sums { nq2: None, nq_nkv: Some(u128::MAX), nkv: Some(u128::MAX) });
    assert_eq!(step.rows().map(|rows| rows.rows), Some(most));
}

#[test]
fn a_reused_batch_number_is_never_the_padded_one() {
    let Parsed::Step(step) = parse("decode[bs=117/128 tok=117 d=117]") else { panic!("a step") };
    assert_eq!((step.batch(), step.graph_batch), (Some(117), Some(128)));
    assert_eq!(step.phase, Phase::Decode);
}

#[test]
fn capture_files() {
    let file = |batch, q_len, rank| Some(CaptureFile { batch, q_len, rank });
    assert_eq!(capture_file("bs_128_q_4_rank0.json.gz"), file(128, Some(4), Some(0)));
    assert_eq!(capture_file("bs_32_rank7.json.gz"), file(32, None, Some(7)));
    assert_eq!(capture_file("bs_32_rank0"), file(32, None, Some(0)));
    for name in ["capture_graph_model_ts_1.json", "bs_x", "bs_32_rank", "bs_32_other", ""] {
        assert_eq!(capture_file(name), None, "{name}");
    }
}

#[test]
fn time_is_linear() {
    // 4 MB of each of the constructions that repeat: a parser that looks back takes minutes, not a second.
    let long = 1 << 22;
    for label in [
        format!("prefill[bs=1 tok=1 ctx=[{}]]", "1, ".repeat(long / 3)),
        format!("prefill[{}]", "[".repeat(long)),
        format!("decode[bs=1 {}]", "a=[1] ".repeat(long / 6)),
        format!("decode[bs=1 {}", "[]".repeat(long / 2)),
        format!("step[MIXED {}]", "=".repeat(long)),
        format!("execute_{}", "1".repeat(long)),
        "a.".repeat(long / 2),
        "layers.".repeat(long / 7),
    ] {
        let start = Instant::now();
        let _ = parse(&label);
        assert!(start.elapsed() < Duration::from_secs(5), "{} took {:?}", &label[..20], start.elapsed());
    }
}

/// Every form with pieces swapped for others: near misses of the grammar.
fn near_label() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "decode[",
            "prefill[",
            "eager_decode[",
            "dummy_decode[",
            "step[",
            "DECODE ",
            "EXTEND ",
            "MIXED ",
            "bs=",
            " tok=",
            " ctx=[",
            " sqsq=",
            " sqsk=",
            " sk=",
            "]",
            "[",
            "...+",
            ", ",
            "/",
            " p=",
            " d=",
            "execute_",
            "context_",
            "_generation_",
            "(sq",
            "sk",
            "sqsq",
            "sqsk",
            ")",
            "(",
            "_",
            "capture_",
            "propose_eagle[",
            "prefill_bs_",
            "_ctxlens_tensor([",
            "decode_step_bs_",
            "c_sq=",
            " g_sk=",
            "ProfilerStep#",
            "model.layers.",
            "-",
            "é",
            "\u{0}",
        ])
        .prop_map(str::to_owned),
        any::<u64>().prop_map(|n| n.to_string()),
        any::<u128>().prop_map(|n| n.to_string()),
        (0u64..300).prop_map(|n| n.to_string()),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn no_text_panics(label in prop_oneof![near_label(), "\\PC{0,80}".boxed()]) {
        if let Parsed::Step(step) | Parsed::Dummy(step) = parse(&label) {
            let _ = (step.rows(), step.q_len(), step.sums_are_split());
            for part in [&step.total, &step.prefill, &step.decode] {
                let _ = part.lengths().pairs();
            }
        }
    }

    #[test]
    fn a_label_of_a_scheduler_is_read_back(
        sequences in prop::collection::vec((1u64..70_000, 0u64..200_000), 1..9),
    ) {
        let sum = |f: fn(u128, u128) -> u128| -> u128 {
            sequences.iter().map(|(q, cached)| f(u128::from(*q), u128::from(q + cached))).sum()
        };
        let (tok, nq2, nq_nkv, nkv) = (sum(|q, _| q), sum(|q, _| q * q), sum(|q, c| q * c), sum(|_, c| c));
        let contexts: Vec<u64> = sequences.iter().map(|(q, cached)| q + cached).collect();
        let ctx = match contexts.len() {
            1 => contexts[0].to_string(),
            2..=5 => format!("{contexts:?}"),
            many => format!("{:?}...+{}", &contexts[..3], many - 3),
        };
        let label = format!("prefill[bs={} tok={tok} ctx={ctx} sqsq={nq2} sqsk={nq_nkv} sk={nkv}]", sequences.len());
        let Parsed::Step(step) = parse(&label) else { panic!("{label}") };
        prop_assert_eq!(&step.problems, &vec![]);
        prop_assert_eq!(step.prefill.sums, Sums { nq2: Some(nq2), nq_nkv: Some(nq_nkv), nkv: Some(nkv) });
        prop_assert_eq!(step.tokens().map(u128::from), Some(tok));
        prop_assert_eq!(step.batch(), Some(sequences.len() as u64));
    }
}
