//! A device: what it is, and where everything else comes from.

use super::attribute::Attribute;
use super::buffer::Buffer;
use super::event::{Event, EventOptions};
use super::graph::Graph;
use super::module::Module;
use super::runtime::Runtime;
use super::stream::Stream;
use crate::api::{Api, HipError};
use crate::sys;

/// One GPU of a runtime. Cloning is cheap.
///
/// HIP keeps a *current device* for each thread. Everything here makes its device current first where HIP looks at it, so that callers need not.
#[derive(Debug, Clone)]
pub struct Device {
    runtime: Runtime,
    index: i32,
}

/// Identity of a GPU: AMD's libraries give the sixteen hexadecimal digits of its KFD `unique_id` as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// The KFD `unique_id`, when the bytes are its digits.
    #[must_use]
    pub fn unique_id(self) -> Option<u64> {
        let digits = std::str::from_utf8(&self.0).ok()?;
        if digits.bytes().all(|b| b.is_ascii_hexdigit()) { u64::from_str_radix(digits, 16).ok() } else { None }
    }
}

impl std::fmt::Display for Uuid {
    /// The text, or the bytes in hexadecimal when they are none.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) if text.bytes().all(|b| b.is_ascii_graphic()) => f.write_str(text),
            _ => self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

impl Device {
    pub(super) fn new(runtime: Runtime, index: i32) -> Self {
        Self { runtime, index }
    }

    pub(super) fn api(&self) -> &Api {
        self.runtime.api()
    }

    /// Its runtime.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Its number among HIP's devices. Not stable when variables hide devices: match by PCI address.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index.unsigned_abs()
    }

    /// Whether both are the same device of the same library.
    #[must_use]
    pub(super) fn is(&self, other: &Self) -> bool {
        self.index == other.index && std::ptr::eq(self.api(), other.api())
    }

    /// Makes it the calling thread's current device.
    ///
    /// # Errors
    /// What HIP says.
    pub fn make_current(&self) -> Result<(), HipError> {
        self.api().set_device(self.index)
    }

    /// Waits for all work of the device. Waits forever if the device hangs: prefer the waits with a deadline.
    ///
    /// # Errors
    /// What HIP says; also errors of kernels that ran earlier.
    pub fn synchronize(&self) -> Result<(), HipError> {
        self.make_current()?;
        self.api().device_synchronize()
    }

    /// Marketing name; empty on some systems.
    ///
    /// # Errors
    /// What HIP says.
    pub fn name(&self) -> Result<String, HipError> {
        self.api().device_name(self.index)
    }

    /// Architecture with its features, such as `gfx942:sramecc+:xnack-`.
    ///
    /// # Errors
    /// What HIP says.
    pub fn arch_with_features(&self) -> Result<String, HipError> {
        self.api().arch(self.index)
    }

    /// Architecture without features, such as `gfx942`.
    ///
    /// # Errors
    /// What HIP says.
    pub fn arch(&self) -> Result<String, HipError> {
        let mut arch = self.arch_with_features()?;
        if let Some(at) = arch.find(':') {
            arch.truncate(at);
        }
        Ok(arch)
    }

    /// One attribute; `None` when the library does not know it.
    ///
    /// # Errors
    /// What HIP says.
    pub fn attribute(&self, attribute: Attribute) -> Result<Option<i32>, HipError> {
        match self.api().attribute(attribute.id(), self.index) {
            Ok(value) => Ok(Some(value)),
            Err(HipError::Call { code: sys::hipErrorInvalidValue | sys::hipErrorNotSupported, .. }) => Ok(None),
            Err(error) => Err(error.about(|| format!("{attribute:?}"))),
        }
    }

    /// An attribute that cannot be negative or zero; anything else counts as unknown.
    fn positive(&self, attribute: Attribute) -> Result<Option<u32>, HipError> {
        Ok(self.attribute(attribute)?.and_then(|value| u32::try_from(value).ok()).filter(|&value| value > 0))
    }

    /// CUs of the device; on RDNA these are twice the multiprocessors that HIP speaks of.
    ///
    /// # Errors
    /// What HIP says.
    pub fn compute_units(&self) -> Result<Option<u32>, HipError> {
        match self.positive(Attribute::PhysicalMultiprocessorCount)? {
            Some(units) => Ok(Some(units)),
            None => self.positive(Attribute::MultiprocessorCount),
        }
    }

    /// XCDs; `None` before HIP 7.
    ///
    /// # Errors
    /// What HIP says.
    pub fn xccs(&self) -> Result<Option<u32>, HipError> {
        self.positive(Attribute::NumberOfXccs)
    }

    /// Lanes of a wave.
    ///
    /// # Errors
    /// What HIP says.
    pub fn warp_size(&self) -> Result<Option<u32>, HipError> {
        self.positive(Attribute::WarpSize)
    }

    /// L2 of one XCD in bytes.
    ///
    /// # Errors
    /// What HIP says.
    pub fn l2_bytes(&self) -> Result<Option<u32>, HipError> {
        self.positive(Attribute::L2CacheSize)
    }

    /// Peak engine clock in kHz.
    ///
    /// # Errors
    /// What HIP says.
    pub fn clock_khz(&self) -> Result<Option<u32>, HipError> {
        self.positive(Attribute::ClockRate)
    }

    /// Peak memory clock in kHz.
    ///
    /// # Errors
    /// What HIP says.
    pub fn memory_clock_khz(&self) -> Result<Option<u32>, HipError> {
        self.positive(Attribute::MemoryClockRate)
    }

    /// Rate in kHz of the constant clock behind `wall_clock64()`; `None` before HIP 6.
    ///
    /// # Errors
    /// What HIP says.
    pub fn wall_clock_khz(&self) -> Result<Option<u32>, HipError> {
        self.positive(Attribute::WallClockRate)
    }

    /// Memory of the device in bytes.
    ///
    /// # Errors
    /// What HIP says.
    pub fn total_memory(&self) -> Result<u64, HipError> {
        self.api().total_memory(self.index)
    }

    /// Free and total memory in bytes, now.
    ///
    /// # Errors
    /// What HIP says.
    pub fn mem_info(&self) -> Result<(u64, u64), HipError> {
        self.make_current()?;
        self.api().mem_info()
    }

    /// PCI address as `dddd:bb:dd.f`, in lower case.
    ///
    /// # Errors
    /// What HIP says.
    pub fn pci_bus_id(&self) -> Result<String, HipError> {
        Ok(self.api().pci_bus_id(self.index)?.to_ascii_lowercase())
    }

    /// Identity; `None` when the library gives none.
    ///
    /// # Errors
    /// What HIP says.
    pub fn uuid(&self) -> Result<Option<Uuid>, HipError> {
        match self.api().device_uuid(self.index) {
            Ok(bytes) if bytes == [0; 16] => Ok(None),
            Ok(bytes) => Ok(Some(Uuid(bytes))),
            Err(error) if error.missing_symbol() || error.code() == Some(sys::hipErrorNotSupported) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Allocates `bytes` of device memory; what it holds is not defined. Zero bytes are no allocation, with address 0.
    ///
    /// # Errors
    /// [`HipError::out_of_memory`], or what else HIP says.
    pub fn alloc(&self, bytes: u64) -> Result<Buffer, HipError> {
        Buffer::new(self, bytes)
    }

    /// Creates a stream that does not wait for the null stream.
    ///
    /// # Errors
    /// What HIP says.
    pub fn stream(&self) -> Result<Stream, HipError> {
        Stream::new(self)
    }

    /// Creates an event with timing.
    ///
    /// # Errors
    /// What HIP says.
    pub fn event(&self) -> Result<Event, HipError> {
        self.event_with(EventOptions::default())
    }

    /// Creates an event.
    ///
    /// # Errors
    /// What HIP says; HIP 5 refuses events without a system fence.
    pub fn event_with(&self, options: EventOptions) -> Result<Event, HipError> {
        Event::new(self, options)
    }

    /// Loads a code object or an offload bundle from memory.
    ///
    /// # Errors
    /// [`HipError::Invalid`] when it is neither, [`HipError::no_binary_for_gpu`] when it has no code for this device, or what else HIP says.
    pub fn load(&self, image: &[u8]) -> Result<Module, HipError> {
        Module::load(self, image)
    }

    /// Captures what `work` puts into a new stream as a graph. The stream is private to the capture and thrown away after it, because HIP leaves a stream
    /// broken for good when a capture in it fails.
    ///
    /// Waiting, allocating and copying from or to the host are not allowed in `work`.
    ///
    /// # Errors
    /// The error of `work`, or what HIP says.
    pub fn capture<E: From<HipError>>(&self, work: impl FnOnce(&Stream) -> Result<(), E>) -> Result<Graph, E> {
        self.stream()?.capture(work).map(|(graph, _stream)| graph)
    }
}
