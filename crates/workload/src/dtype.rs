//! Element types: their names, sizes and the flavour of fp8 that an architecture computes with.

use crate::error::ShapeError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An element type with one memory format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Dtype {
    F64,
    F32,
    Bf16,
    F16,
    /// OCP E4M3 (no infinities, max 448): gfx950, gfx12 and later, NVIDIA.
    Fp8E4m3fn,
    /// E4M3 with bias 8 and a single NaN (0x80), max 240: gfx940 to gfx942.
    Fp8E4m3fnuz,
    /// OCP E5M2 (IEEE-like, max 57344).
    Fp8E5m2,
    /// E5M2 with bias 16 and a single NaN (0x80), max 57344: gfx940 to gfx942.
    Fp8E5m2fnuz,
    /// OCP E2M1, two elements a byte, the even element in the low nibble.
    Fp4E2m1,
    /// Power-of-two scale of the MX formats: 2^(byte − 127), 0xFF is NaN.
    E8m0,
    I64,
    I32,
    I16,
    I8,
    U8,
    Bool,
}

/// Which fp8 a GPU computes with: FNUZ on gfx942, OCP on gfx950 and later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fp8Flavor {
    /// OCP `e4m3fn` / `e5m2`.
    #[default]
    Ocp,
    /// `e4m3fnuz` / `e5m2fnuz`.
    Fnuz,
}

/// A dtype as an inventory names it: either exact, or an fp8 whose flavour the device decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DtypeTag {
    /// One memory format.
    Exact(Dtype),
    /// `fp8`: e4m3 in the device's flavour.
    Fp8,
    /// `bf8`: e5m2 in the device's flavour.
    Bf8,
}

const NAMES: &[(Dtype, &str)] = &[
    (Dtype::F64, "f64"),
    (Dtype::F32, "f32"),
    (Dtype::Bf16, "bf16"),
    (Dtype::F16, "f16"),
    (Dtype::Fp8E4m3fn, "fp8_e4m3fn"),
    (Dtype::Fp8E4m3fnuz, "fp8_e4m3fnuz"),
    (Dtype::Fp8E5m2, "fp8_e5m2"),
    (Dtype::Fp8E5m2fnuz, "fp8_e5m2fnuz"),
    (Dtype::Fp4E2m1, "fp4_e2m1"),
    (Dtype::E8m0, "e8m0"),
    (Dtype::I64, "i64"),
    (Dtype::I32, "i32"),
    (Dtype::I16, "i16"),
    (Dtype::I8, "i8"),
    (Dtype::U8, "u8"),
    (Dtype::Bool, "bool"),
];

/// Other spellings: PyTorch's trace names (without `c10::`), C names, vLLM's and common shorthands.
const ALIASES: &[(&str, DtypeTag)] = &[
    ("double", DtypeTag::Exact(Dtype::F64)),
    ("fp64", DtypeTag::Exact(Dtype::F64)),
    ("float64", DtypeTag::Exact(Dtype::F64)),
    ("float", DtypeTag::Exact(Dtype::F32)),
    ("fp32", DtypeTag::Exact(Dtype::F32)),
    ("float32", DtypeTag::Exact(Dtype::F32)),
    ("bfloat16", DtypeTag::Exact(Dtype::Bf16)),
    ("__hip_bfloat16", DtypeTag::Exact(Dtype::Bf16)),
    ("half", DtypeTag::Exact(Dtype::F16)),
    ("fp16", DtypeTag::Exact(Dtype::F16)),
    ("float16", DtypeTag::Exact(Dtype::F16)),
    ("float8_e4m3fn", DtypeTag::Exact(Dtype::Fp8E4m3fn)),
    ("e4m3fn", DtypeTag::Exact(Dtype::Fp8E4m3fn)),
    ("float8_e4m3fnuz", DtypeTag::Exact(Dtype::Fp8E4m3fnuz)),
    ("e4m3fnuz", DtypeTag::Exact(Dtype::Fp8E4m3fnuz)),
    ("float8_e5m2", DtypeTag::Exact(Dtype::Fp8E5m2)),
    ("e5m2", DtypeTag::Exact(Dtype::Fp8E5m2)),
    ("float8_e5m2fnuz", DtypeTag::Exact(Dtype::Fp8E5m2fnuz)),
    ("e5m2fnuz", DtypeTag::Exact(Dtype::Fp8E5m2fnuz)),
    ("fp8", DtypeTag::Fp8),
    ("fp8_e4m3", DtypeTag::Fp8),
    ("bf8", DtypeTag::Bf8),
    ("fp8_e5m2_arch", DtypeTag::Bf8),
    ("float4_e2m1fn_x2", DtypeTag::Exact(Dtype::Fp4E2m1)),
    ("fp4", DtypeTag::Exact(Dtype::Fp4E2m1)),
    ("fp4x2", DtypeTag::Exact(Dtype::Fp4E2m1)),
    ("mxfp4", DtypeTag::Exact(Dtype::Fp4E2m1)),
    ("e2m1", DtypeTag::Exact(Dtype::Fp4E2m1)),
    ("float8_e8m0fnu", DtypeTag::Exact(Dtype::E8m0)),
    ("long", DtypeTag::Exact(Dtype::I64)),
    ("long int", DtypeTag::Exact(Dtype::I64)),
    ("int64", DtypeTag::Exact(Dtype::I64)),
    ("int", DtypeTag::Exact(Dtype::I32)),
    ("int32", DtypeTag::Exact(Dtype::I32)),
    ("unsigned int", DtypeTag::Exact(Dtype::I32)),
    ("short int", DtypeTag::Exact(Dtype::I16)),
    ("signed char", DtypeTag::Exact(Dtype::I8)),
    ("int8", DtypeTag::Exact(Dtype::I8)),
    ("unsigned char", DtypeTag::Exact(Dtype::U8)),
    ("uint8", DtypeTag::Exact(Dtype::U8)),
];

impl Dtype {
    /// Every dtype, for tests and listings.
    pub fn all() -> impl Iterator<Item = Dtype> {
        NAMES.iter().map(|(dtype, _)| *dtype)
    }

    /// The name used in inventories and documents.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(dtype, _)| *dtype == self).map_or("?", |(_, name)| name)
    }

    /// Size of one element in bits (fp4 is 4: two elements a byte).
    pub fn bits(self) -> u64 {
        match self {
            Dtype::F64 | Dtype::I64 => 64,
            Dtype::F32 | Dtype::I32 => 32,
            Dtype::Bf16 | Dtype::F16 | Dtype::I16 => 16,
            Dtype::Fp8E4m3fn
            | Dtype::Fp8E4m3fnuz
            | Dtype::Fp8E5m2
            | Dtype::Fp8E5m2fnuz
            | Dtype::E8m0
            | Dtype::I8
            | Dtype::U8
            | Dtype::Bool => 8,
            Dtype::Fp4E2m1 => 4,
        }
    }

    /// Bytes that `elements` elements take, rounded up to whole bytes.
    pub fn bytes(self, elements: u128) -> u128 {
        (elements * u128::from(self.bits())).div_ceil(8)
    }

    /// True for the four 8-bit floats.
    pub fn is_fp8(self) -> bool {
        matches!(self, Dtype::Fp8E4m3fn | Dtype::Fp8E4m3fnuz | Dtype::Fp8E5m2 | Dtype::Fp8E5m2fnuz)
    }

    /// True for types that hold real numbers.
    pub fn is_float(self) -> bool {
        self.is_fp8()
            || matches!(self, Dtype::F64 | Dtype::F32 | Dtype::Bf16 | Dtype::F16 | Dtype::Fp4E2m1 | Dtype::E8m0)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Fp8Flavor {
    /// The flavour of an AMD architecture (`gfx942` is FNUZ, everything later is OCP).
    pub fn of_arch(arch: &str) -> Self {
        match arch {
            "gfx940" | "gfx941" | "gfx942" => Fp8Flavor::Fnuz,
            _ => Fp8Flavor::Ocp,
        }
    }
}

impl DtypeTag {
    /// The memory format on a device of this fp8 flavour.
    pub fn resolve(self, flavor: Fp8Flavor) -> Dtype {
        match (self, flavor) {
            (DtypeTag::Exact(dtype), _) => dtype,
            (DtypeTag::Fp8, Fp8Flavor::Ocp) => Dtype::Fp8E4m3fn,
            (DtypeTag::Fp8, Fp8Flavor::Fnuz) => Dtype::Fp8E4m3fnuz,
            (DtypeTag::Bf8, Fp8Flavor::Ocp) => Dtype::Fp8E5m2,
            (DtypeTag::Bf8, Fp8Flavor::Fnuz) => Dtype::Fp8E5m2fnuz,
        }
    }
}

impl fmt::Display for DtypeTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DtypeTag::Exact(dtype) => f.write_str(dtype.name()),
            DtypeTag::Fp8 => f.write_str("fp8"),
            DtypeTag::Bf8 => f.write_str("bf8"),
        }
    }
}

impl From<Dtype> for DtypeTag {
    fn from(dtype: Dtype) -> Self {
        DtypeTag::Exact(dtype)
    }
}

impl FromStr for DtypeTag {
    type Err = ShapeError;

    /// Accepts kbench's names, PyTorch's (`c10::BFloat16`, `long int`, `torch.float16`) and usual shorthands, in any case.
    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let lower = text.trim().to_ascii_lowercase();
        let bare = lower.trim_start_matches("c10::").trim_start_matches("torch.");
        if let Some((dtype, _)) = NAMES.iter().find(|(_, name)| *name == bare) {
            return Ok(DtypeTag::Exact(*dtype));
        }
        ALIASES.iter().find(|(name, _)| *name == bare).map(|(_, tag)| *tag).ok_or_else(|| {
            let known: Vec<&str> = NAMES.iter().map(|(_, name)| *name).collect();
            ShapeError::dtype(text, format!("unknown name; known are fp8, bf8, {}", known.join(", ")))
        })
    }
}

impl Serialize for DtypeTag {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DtypeTag {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The dtypes of a case: one for everything, or one a role (`a`, `b`, `out`, `q`, `kv`, `w`, ...).
///
/// Text form: `bf16`, or `a=fp8,b=fp8,out=bf16`, or both (`bf16,kv=fp8`: all bf16 but the KV cache).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dtypes {
    default: Option<DtypeTag>,
    roles: Vec<(String, DtypeTag)>,
}

impl Dtypes {
    /// The same dtype for every role.
    pub fn uniform(tag: impl Into<DtypeTag>) -> Self {
        Self { default: Some(tag.into()), roles: Vec::new() }
    }

    /// Adds or replaces one role.
    #[must_use]
    pub fn with(mut self, role: &str, tag: impl Into<DtypeTag>) -> Self {
        let tag = tag.into();
        match self.roles.iter_mut().find(|(known, _)| known == role) {
            Some((_, old)) => *old = tag,
            None => self.roles.push((role.to_owned(), tag)),
        }
        self
    }

    /// The dtype of a role: its own, else the default.
    pub fn get(&self, role: &str) -> Option<DtypeTag> {
        self.roles.iter().find(|(known, _)| known == role).map(|(_, tag)| *tag).or(self.default)
    }

    /// The dtype that stands for every role without one of its own.
    pub fn default_tag(&self) -> Option<DtypeTag> {
        self.default
    }

    /// Roles with a dtype of their own, in order.
    pub fn roles(&self) -> impl Iterator<Item = (&str, DtypeTag)> {
        self.roles.iter().map(|(role, tag)| (role.as_str(), *tag))
    }

    /// True when nothing is known.
    pub fn is_empty(&self) -> bool {
        self.default.is_none() && self.roles.is_empty()
    }
}

impl fmt::Display for Dtypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some(tag) = self.default {
            write!(f, "{tag}")?;
            separator = ",";
        }
        for (role, tag) in &self.roles {
            write!(f, "{separator}{role}={tag}")?;
            separator = ",";
        }
        Ok(())
    }
}

impl FromStr for Dtypes {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let mut dtypes = Dtypes::default();
        for part in text.split([',', ';']).map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((role, tag)) => dtypes = dtypes.with(role.trim(), tag.parse::<DtypeTag>()?),
                None if dtypes.default.is_some() => {
                    return Err(ShapeError::grammar(text, "two dtypes without a role"));
                }
                None => dtypes.default = Some(part.parse()?),
            }
        }
        Ok(dtypes)
    }
}

impl Serialize for Dtypes {
    /// `{"default": "bf16", "kv": "fp8"}`: an object, as documents show it.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        if let Some(tag) = self.default {
            map.serialize_entry("default", &tag)?;
        }
        for (role, tag) in &self.roles {
            map.serialize_entry(role, tag)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Dtypes {
    /// Reads the object that [`Serialize`] writes, roles in the order of the document.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Roles;
        impl<'de> serde::de::Visitor<'de> for Roles {
            type Value = Dtypes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of dtypes by role")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut entries: A) -> Result<Dtypes, A::Error> {
                let mut dtypes = Dtypes::default();
                while let Some((role, tag)) = entries.next_entry::<String, DtypeTag>()? {
                    if role == "default" {
                        dtypes.default = Some(tag);
                    } else {
                        dtypes = dtypes.with(&role, tag);
                    }
                }
                Ok(dtypes)
            }
        }
        deserializer.deserialize_map(Roles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for dtype in Dtype::all() {
            assert_eq!(dtype.name().parse::<DtypeTag>(), Ok(DtypeTag::Exact(dtype)));
        }
        for text in ["fp8", "bf8"] {
            assert_eq!(text.parse::<DtypeTag>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn trace_names_are_known() {
        // The alphabet of `Input type` in shared facts, section 3.1.
        for (text, dtype) in [
            ("c10::BFloat16", Dtype::Bf16),
            ("c10::Half", Dtype::F16),
            ("float", Dtype::F32),
            ("double", Dtype::F64),
            ("long int", Dtype::I64),
            ("int", Dtype::I32),
            ("short int", Dtype::I16),
            ("unsigned char", Dtype::U8),
            ("signed char", Dtype::I8),
            ("bool", Dtype::Bool),
            ("c10::Float8_e4m3fn", Dtype::Fp8E4m3fn),
            ("c10::Float8_e4m3fnuz", Dtype::Fp8E4m3fnuz),
            ("c10::Float8_e5m2fnuz", Dtype::Fp8E5m2fnuz),
            ("c10::Float8_e8m0fnu", Dtype::E8m0),
            ("c10::Float4_e2m1fn_x2", Dtype::Fp4E2m1),
        ] {
            assert_eq!(text.parse::<DtypeTag>(), Ok(DtypeTag::Exact(dtype)), "{text}");
        }
        assert!("Scalar".parse::<DtypeTag>().is_err());
    }

    #[test]
    fn dtypes_text_round_trips_and_roles_win() {
        let dtypes: Dtypes = "bf16,kv=fp8".parse().unwrap();
        assert_eq!(dtypes.get("q"), Some(DtypeTag::Exact(Dtype::Bf16)));
        assert_eq!(dtypes.get("kv"), Some(DtypeTag::Fp8));
        assert_eq!(dtypes.to_string().parse::<Dtypes>().unwrap(), dtypes);
        let json = serde_json::to_string(&dtypes).unwrap();
        assert_eq!(json, r#"{"default":"bf16","kv":"fp8"}"#);
        assert_eq!(serde_json::from_str::<Dtypes>(&json).unwrap(), dtypes);
        assert!("bf16,f16".parse::<Dtypes>().is_err());
    }

    #[test]
    fn fp8_follows_the_architecture() {
        assert_eq!(DtypeTag::Fp8.resolve(Fp8Flavor::of_arch("gfx942")), Dtype::Fp8E4m3fnuz);
        assert_eq!(DtypeTag::Fp8.resolve(Fp8Flavor::of_arch("gfx950")), Dtype::Fp8E4m3fn);
    }

    #[test]
    fn sizes() {
        assert_eq!(Dtype::Fp4E2m1.bytes(3), 2);
        assert_eq!(Dtype::Bf16.bytes(1 << 100), 1 << 101);
    }
}
