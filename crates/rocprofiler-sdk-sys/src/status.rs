//! Status codes.

use std::fmt;

/// What a function of the SDK answers. Codes are those of 0.6 and later, which have not moved since; any other number is
/// possible and kept. For people, use [`crate::Sdk::describe`], which asks the SDK itself for the name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Status(pub i32);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $value:literal,)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Status = Status($value);)*
        }

        impl fmt::Debug for Status {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Status::$name => f.write_str(stringify!($name)),)*
                    Status(other) => write!(f, "Status({other})"),
                }
            }
        }
    };
}

statuses! {
    /// Done.
    SUCCESS = 0,
    /// Something failed.
    ERROR = 1,
    /// No context has this id, or it is not active.
    CONTEXT_NOT_FOUND = 2,
    /// No buffer has this id.
    BUFFER_NOT_FOUND = 3,
    /// Unknown kind of tracing.
    KIND_NOT_FOUND = 4,
    /// Unknown operation of a kind.
    OPERATION_NOT_FOUND = 5,
    /// No callback thread has this id.
    THREAD_NOT_FOUND = 6,
    /// No agent has this id.
    AGENT_NOT_FOUND = 7,
    /// No counter has this id.
    COUNTER_NOT_FOUND = 8,
    /// A context is in a state that does not allow this.
    CONTEXT_ERROR = 9,
    /// A context lacks what it needs, or does not exist.
    CONTEXT_INVALID = 10,
    /// A context could not be started.
    CONTEXT_NOT_STARTED = 11,
    /// Another active context has the hardware.
    CONTEXT_CONFLICT = 12,
    /// The id to be filled was not 0.
    CONTEXT_ID_NOT_ZERO = 13,
    /// The buffer is being flushed.
    BUFFER_BUSY = 14,
    /// The context has this service already.
    SERVICE_ALREADY_CONFIGURED = 15,
    /// Only allowed inside `initialize`, or another tool configured the SDK first.
    CONFIGURATION_LOCKED = 16,
    /// Not made yet.
    NOT_IMPLEMENTED = 17,
    /// A struct is larger than the SDK knows, or its version unknown.
    INCOMPATIBLE_ABI = 18,
    /// An argument is out of its range.
    INVALID_ARGUMENT = 19,
    /// The agent does not have this counter.
    METRIC_NOT_VALID_FOR_AGENT = 20,
    /// The SDK was finalised.
    FINALIZED = 21,
    /// HSA must be initialised first.
    HSA_NOT_LOADED = 22,
    /// The counter has no such dimension.
    DIM_NOT_FOUND = 23,
    /// A counter of a configuration is not there for the agent.
    PROFILE_COUNTER_NOT_FOUND = 24,
    /// Memory, or the caller's array, is too small.
    OUT_OF_RESOURCES = 29,
    /// No configuration has this id.
    CONFIG_NOT_FOUND = 30,
    /// Device counting and dispatch counting in one context.
    AGENT_DISPATCH_CONFLICT = 31,
    /// A configuration without hardware counters.
    NO_HARDWARE_COUNTERS = 35,
    /// A configuration's agent is not the one that counts.
    AGENT_MISMATCH = 36,
    /// The service is not there.
    NOT_AVAILABLE = 37,
    /// The counters do not fit the hardware's registers at once.
    EXCEEDS_HW_LIMIT = 38,
    /// No counters are defined for this agent's architecture.
    AGENT_ARCH_NOT_SUPPORTED = 39,
    /// The kernel driver refuses.
    PERMISSION_DENIED = 40,
    /// `rocprofiler-register` is too old to hand its tables to a tool that comes late (1.3 and later).
    INCOMPATIBLE_REGISTER_VERSION = 41,
}

impl Status {
    /// Whether it is [`Status::SUCCESS`].
    pub fn is_success(self) -> bool {
        self == Status::SUCCESS
    }
}
