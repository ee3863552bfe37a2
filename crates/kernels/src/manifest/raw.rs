//! The TOML as written: every key known, nothing checked beyond its type.

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    pub(super) schema: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) build: Vec<Spanned<RawBuild>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBuild {
    pub(super) name: Spanned<String>,
    pub(super) family: Spanned<String>,
    pub(super) source: Option<Spanned<String>>,
    pub(super) file: Option<Spanned<String>>,
    pub(super) targets: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    pub(super) dtypes: BTreeMap<String, Spanned<OneOrMany>>,
    #[serde(default)]
    pub(super) when: Vec<Spanned<Scalar>>,
    #[serde(default)]
    pub(super) priority: i64,
    #[serde(default)]
    pub(super) defines: BTreeMap<String, Spanned<Scalar>>,
    #[serde(default)]
    pub(super) variant: Vec<Spanned<RawVariant>>,
    #[serde(default)]
    pub(super) buffer: Vec<Spanned<RawBuffer>>,
    #[serde(default)]
    pub(super) launch: Vec<Spanned<RawLaunch>>,
    #[serde(default)]
    pub(super) doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawVariant {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) when: Vec<Spanned<Scalar>>,
    #[serde(default)]
    pub(super) r#const: BTreeMap<String, Spanned<i64>>,
    #[serde(default)]
    pub(super) doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBuffer {
    pub(super) name: Spanned<String>,
    pub(super) bytes: Option<Spanned<Scalar>>,
    pub(super) init: Option<Spanned<RawInit>>,
    #[serde(default)]
    pub(super) zero_before: bool,
    pub(super) pointers: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    pub(super) when: Vec<Spanned<Scalar>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum RawInit {
    Word(String),
    Table(RawInitTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawInitTable {
    pub(super) fill_u32: Option<Scalar>,
    pub(super) fill_f32: Option<Scalar>,
    pub(super) values_u32: Option<Vec<Scalar>>,
    pub(super) list_u32: Option<String>,
    pub(super) prefix_sum_u32: Option<String>,
    pub(super) each: Option<Scalar>,
    pub(super) file: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLaunch {
    pub(super) kernel: Spanned<String>,
    #[serde(default)]
    pub(super) when: Vec<Spanned<Scalar>>,
    #[serde(default)]
    pub(super) setup: bool,
    pub(super) grid: Spanned<Vec<Spanned<Scalar>>>,
    pub(super) block: Spanned<Vec<Spanned<Scalar>>>,
    pub(super) cluster: Option<Spanned<Vec<Spanned<Scalar>>>>,
    pub(super) lds: Option<Spanned<Scalar>>,
    pub(super) layout: Option<Spanned<String>>,
    pub(super) kernarg_size: Option<Spanned<i64>>,
    #[serde(default)]
    pub(super) args: Vec<Spanned<RawArg>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawArg {
    pub(super) name: Option<String>,
    pub(super) at: Option<Spanned<i64>>,
    pub(super) ptr: Option<Spanned<String>>,
    pub(super) offset: Option<Spanned<Scalar>>,
    #[serde(default)]
    pub(super) optional: bool,
    pub(super) null: Option<Spanned<bool>>,
    pub(super) u8: Option<Spanned<Scalar>>,
    pub(super) u16: Option<Spanned<Scalar>>,
    pub(super) u32: Option<Spanned<Scalar>>,
    pub(super) i32: Option<Spanned<Scalar>>,
    pub(super) u64: Option<Spanned<Scalar>>,
    pub(super) i64: Option<Spanned<Scalar>>,
    pub(super) f32: Option<Spanned<Scalar>>,
    pub(super) f64: Option<Spanned<Scalar>>,
}

/// Text, or a number or truth value as the text that would be written for it.
pub(super) struct Scalar(pub(super) String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyScalar;
        impl Visitor<'_> for AnyScalar {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an expression or a number")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar(format!("{value:?}")))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
        }
        deserializer.deserialize_any(AnyScalar)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}
