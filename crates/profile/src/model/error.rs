//! Why a model config or a way of serving it cannot be used.

/// A model config, or a split of the model over GPUs, that shapes cannot be derived from.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file could not be read.
    #[error("cannot read the model config {path}: {source}")]
    Read {
        /// Path as given.
        path: String,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The file is too large to be a model config.
    #[error("{path} is larger than {limit} bytes, so it is no model config; give the model's config.json")]
    TooLarge {
        /// Path as given.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The text is not JSON, or not an object.
    #[error("the model config is not a JSON object ({reason}); give the config.json of the model's folder")]
    Json {
        /// What the parser said.
        reason: String,
    },
    /// The config describes a model that kbench does not know.
    #[error(
        "the model architecture `{name}` is not known, so its shapes cannot be derived; known are {known}. If the model has \
         the layers of one of them, set `architectures` to that name in a copy of the config"
    )]
    UnknownArchitecture {
        /// `architectures[0]` or `model_type`; empty when neither is there.
        name: String,
        /// Known names.
        known: String,
    },
    /// A key that the architecture cannot do without is not there.
    #[error("the config of {architecture} lacks `{key}` ({what}); add it: its value is never guessed")]
    Missing {
        /// Architecture.
        architecture: String,
        /// Key.
        key: &'static str,
        /// What it is.
        what: &'static str,
    },
    /// A key has a value that cannot be.
    #[error("`{key}` of the model config is {found}: {reason}")]
    Invalid {
        /// Key.
        key: String,
        /// Value as found, shortened.
        found: String,
        /// What would be right.
        reason: String,
    },
    /// The model cannot be split over that many GPUs.
    #[error("the model cannot be split so: {reason}")]
    Split {
        /// What does not divide.
        reason: String,
    },
    /// The step's counts are too large for shapes.
    #[error("the step is too large: {what} does not fit 64 bits")]
    Overflow {
        /// What was computed.
        what: &'static str,
    },
}
