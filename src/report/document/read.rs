//! Reading documents back.

use super::{RunDocument, SCHEMA};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::path::Path;

/// Why a result cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The file could not be read.
    #[error("{file}: {cause}")]
    Io {
        /// The file.
        file: String,
        /// The system's words.
        cause: std::io::Error,
    },
    /// Another kind of document.
    #[error(
        "{file}: this is {}, not {SCHEMA}: a result is what `kbench run --format json` writes",
        found.as_ref().map_or_else(|| "a JSON document without a `schema`".to_owned(), |found| format!("`{found}`"))
    )]
    Schema {
        /// The file.
        file: String,
        /// The schema that it names.
        found: Option<String>,
    },
    /// No JSON, or a key is missing or of another type.
    #[error("{file}: this is no {SCHEMA} document: {cause}")]
    Json {
        /// The file.
        file: String,
        /// What is wrong, with line and column.
        cause: serde_json::Error,
    },
}

/// The `schema` of a run document: always [`SCHEMA`], in memory and in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schema;

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(SCHEMA)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = String::deserialize(deserializer)?;
        if found == SCHEMA {
            return Ok(Schema);
        }
        Err(serde::de::Error::custom(format!("the schema is `{found}`, not `{SCHEMA}`")))
    }
}

/// All that is read of a document before its schema is known.
#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    schema: Option<String>,
}

impl RunDocument {
    /// Reads a document from its text; `file` is named in errors.
    ///
    /// # Errors
    /// [`DocumentError`]: another schema, no JSON, or a key that is missing or of another type.
    pub fn from_json(file: &str, text: &[u8]) -> Result<Self, DocumentError> {
        let json = |cause| DocumentError::Json { file: file.to_owned(), cause };
        let named: Named = serde_json::from_slice(text).map_err(json)?;
        if named.schema.as_deref() != Some(SCHEMA) {
            return Err(DocumentError::Schema { file: file.to_owned(), found: named.schema });
        }
        serde_json::from_slice(text).map_err(json)
    }

    /// Reads a document from a file.
    ///
    /// # Errors
    /// As [`RunDocument::from_json`], and when the file cannot be read.
    pub fn read(path: &Path) -> Result<Self, DocumentError> {
        let file = path.display().to_string();
        match std::fs::read(path) {
            Ok(text) => Self::from_json(&file, &text),
            Err(cause) => Err(DocumentError::Io { file, cause }),
        }
    }
}
