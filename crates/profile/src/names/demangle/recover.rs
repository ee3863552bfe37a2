//! Names that break the grammar: assembly kernels whose length prefix was not adapted, and names cut short.

/// What can be read of a mangled name that the parser refused.
pub(super) fn recover(raw: &str) -> Option<String> {
    mislabelled(raw).or_else(|| qualified_name(raw))
}

/// An assembly kernel, `_ZN <length> <namespace> <length> <kernel> E`, whose second length is wrong: such sources often
/// keep the number of the kernel they were copied from. The kernel's identifier reaches to the closing `E`.
fn mislabelled(raw: &str) -> Option<String> {
    let (namespace, rest) = identifier(raw.strip_prefix("_ZN")?)?;
    let (declared, rest) = length(rest)?;
    let kernel = rest.strip_suffix('E')?;
    let is_plain = !kernel.is_empty() && kernel.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_template = rest.as_bytes().get(declared) == Some(&b'I');
    (is_plain && !is_template).then(|| format!("{namespace}::{kernel}"))
}

/// The identifiers that a mangled name starts with, joined; what follows them is kept in angle brackets.
fn qualified_name(raw: &str) -> Option<String> {
    let body = raw.strip_prefix("_Z")?;
    let is_nested = body.starts_with('N');
    let mut rest = body.trim_start_matches(['N', 'K', 'L']);
    let mut path = Vec::new();
    while let Some((identifier, tail)) = identifier(rest) {
        path.push(if identifier.starts_with("_GLOBAL__N") { "(anonymous namespace)" } else { identifier });
        rest = tail;
        if !is_nested {
            break;
        }
    }
    if path.is_empty() {
        return None;
    }
    let name = path.join("::");
    Some(if matches!(rest, "" | "E") { name } else { format!("{name}<{rest}>") })
}

/// `<length> <identifier>`, and what follows.
fn identifier(text: &str) -> Option<(&str, &str)> {
    let (length, behind) = length(text)?;
    let name = behind.get(..length).filter(|name| !name.is_empty())?;
    Some((name, behind.get(length..)?))
}

fn length(text: &str) -> Option<(usize, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length = text.get(..digits)?.parse().ok()?;
    Some((length, text.get(digits..)?))
}
