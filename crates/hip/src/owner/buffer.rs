//! Device memory.

use std::ffi::c_void;
use std::ops::{Bound, RangeBounds};
use std::ptr::NonNull;

use super::Handle;
use super::device::Device;
use super::stream::Stream;
use crate::api::HipError;
use crate::sys;

/// Device memory, freed when dropped (HIP waits for the device then).
///
/// Functions with `_on` put work into a stream and return; all others return when the work is done. Neither kind waits for kernels in other streams: order
/// them with events or waits.
pub struct Buffer {
    device: Device,
    /// Nothing for an empty buffer.
    memory: Option<Handle<c_void>>,
    bytes: u64,
}

/// A part of a [`Buffer`].
#[derive(Debug, Clone, Copy)]
pub struct BufferSlice<'a> {
    buffer: &'a Buffer,
    offset: u64,
    bytes: u64,
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({:#x}, {} bytes, device {})", self.address(), self.bytes, self.device.index())
    }
}

impl Buffer {
    pub(super) fn new(device: &Device, bytes: u64) -> Result<Self, HipError> {
        let memory = if bytes == 0 {
            None
        } else {
            let size =
                usize::try_from(bytes).map_err(|_| HipError::invalid(format!("{bytes} bytes cannot be allocated")))?;
            device.make_current()?;
            Some(Handle(device.api().malloc(size)?))
        };
        Ok(Self { device: device.clone(), memory, bytes })
    }

    /// Its device address; 0 when empty.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.as_ref().map_or(0, |memory| memory.raw() as u64)
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// All of it.
    #[must_use]
    pub fn all(&self) -> BufferSlice<'_> {
        BufferSlice { buffer: self, offset: 0, bytes: self.bytes }
    }

    /// A part of it, in bytes.
    ///
    /// # Errors
    /// [`HipError::Invalid`] for a range that is not within it.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<BufferSlice<'_>, HipError> {
        self.all().slice(range)
    }

    /// Copies `data` to the begin of this buffer.
    ///
    /// # Errors
    /// [`HipError::Invalid`] when it is too long, or what HIP says.
    pub fn copy_from_host(&self, data: &[u8]) -> Result<(), HipError> {
        self.slice(..data.len() as u64)?.copy_from_host(data)
    }

    /// Copies the begin of this buffer to `data`.
    ///
    /// # Errors
    /// [`HipError::Invalid`] when `data` is longer than the buffer, or what HIP says.
    pub fn copy_to_host(&self, data: &mut [u8]) -> Result<(), HipError> {
        self.slice(..data.len() as u64)?.copy_to_host(data)
    }

    /// Copies all of another buffer of the same size.
    ///
    /// # Errors
    /// [`HipError::Invalid`] for another size or device, or what HIP says.
    pub fn copy_from_device(&self, from: &Self) -> Result<(), HipError> {
        self.all().copy_from_device(from.all())
    }

    /// Fills it with a byte.
    ///
    /// # Errors
    /// What HIP says.
    pub fn fill_u8(&self, value: u8) -> Result<(), HipError> {
        self.all().fill_u8(value)
    }

    /// Fills it with a 32-bit word.
    ///
    /// # Errors
    /// [`HipError::Invalid`] when its size is not a multiple of four, or what HIP says.
    pub fn fill_u32(&self, value: u32) -> Result<(), HipError> {
        self.all().fill_u32(value)
    }
}

impl<'a> BufferSlice<'a> {
    /// Its device address.
    #[must_use]
    pub fn address(&self) -> u64 {
        // The range was checked, so the sum is an address of the buffer or its end.
        self.buffer.address() + self.offset
    }

    /// Its size in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// A part of this part, in bytes.
    ///
    /// # Errors
    /// [`HipError::Invalid`] for a range that is not within it.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<BufferSlice<'a>, HipError> {
        let from = match range.start_bound() {
            Bound::Included(&from) => Some(from),
            Bound::Excluded(&before) => before.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let to = match range.end_bound() {
            Bound::Included(&last) => last.checked_add(1),
            Bound::Excluded(&to) => Some(to),
            Bound::Unbounded => Some(self.bytes),
        };
        match (from, to) {
            (Some(from), Some(to)) if from <= to && to <= self.bytes => {
                Ok(BufferSlice { buffer: self.buffer, offset: self.offset + from, bytes: to - from })
            }
            _ => {
                let text = |bound: Option<u64>| bound.map_or_else(|| "2^64".to_owned(), |bound| bound.to_string());
                let (from, to) = (text(from), text(to));
                Err(HipError::invalid(format!(
                    "bytes {from} to {to} are not within {} bytes of device memory",
                    self.bytes
                )))
            }
        }
    }

    fn pointer(&self) -> *mut c_void {
        let memory = self.buffer.memory.as_ref().map_or(std::ptr::null_mut(), Handle::raw);
        // An address of the device: counted in bytes, never followed here.
        memory.wrapping_byte_add(self.offset as usize)
    }

    /// Copies `data` here.
    ///
    /// # Errors
    /// [`HipError::Invalid`] for another size, or what HIP says.
    pub fn copy_from_host(&self, data: &[u8]) -> Result<(), HipError> {
        self.same_size(data.len() as u64)?;
        if data.is_empty() {
            return Ok(());
        }
        self.buffer.device.make_current()?;
        // SAFETY: the memory is live and as long as `data`; HIP has read `data` when it returns.
        unsafe { self.buffer.device.api().copy_to_device(self.pointer(), data) }.map_err(|e| e.about(|| self.text()))
    }

    /// Copies this to `data`.
    ///
    /// # Errors
    /// [`HipError::Invalid`] for another size, or what HIP says.
    pub fn copy_to_host(&self, data: &mut [u8]) -> Result<(), HipError> {
        self.same_size(data.len() as u64)?;
        if data.is_empty() {
            return Ok(());
        }
        self.buffer.device.make_current()?;
        // SAFETY: the memory is live and as long as `data`; HIP has written `data` when it returns.
        unsafe { self.buffer.device.api().copy_to_host(data, self.pointer()) }.map_err(|e| e.about(|| self.text()))
    }

    /// Copies another part here.
    ///
    /// # Errors
    /// [`HipError::Invalid`] for another size or device, or what HIP says.
    pub fn copy_from_device(&self, from: BufferSlice<'_>) -> Result<(), HipError> {
        self.copy(from, None)
    }

    /// Puts a copy of another part to here into a stream.
    ///
    /// # Errors
    /// As [`BufferSlice::copy_from_device`].
    pub fn copy_from_device_on(&self, from: BufferSlice<'_>, stream: &Stream) -> Result<(), HipError> {
        self.copy(from, Some(stream))
    }

    fn copy(&self, from: BufferSlice<'_>, stream: Option<&Stream>) -> Result<(), HipError> {
        self.same_size(from.bytes)?;
        if !self.buffer.device.is(&from.buffer.device) {
            return Err(HipError::invalid("copies between devices are not supported".into()));
        }
        // SAFETY: both parts are live and of this size.
        self.in_stream(stream, |raw| unsafe {
            self.buffer.device.api().copy_on_device(self.pointer(), from.pointer(), self.size(), raw)
        })
    }

    /// Fills it with a byte.
    ///
    /// # Errors
    /// What HIP says.
    pub fn fill_u8(&self, value: u8) -> Result<(), HipError> {
        self.fill_bytes(value, None)
    }

    /// Puts a fill with a byte into a stream.
    ///
    /// # Errors
    /// [`HipError::Invalid`] for a stream of another device, or what HIP says.
    pub fn fill_u8_on(&self, value: u8, stream: &Stream) -> Result<(), HipError> {
        self.fill_bytes(value, Some(stream))
    }

    fn fill_bytes(&self, value: u8, stream: Option<&Stream>) -> Result<(), HipError> {
        // SAFETY: the memory is live and so long.
        self.in_stream(stream, |raw| unsafe {
            self.buffer.device.api().fill_bytes(self.pointer(), value, self.size(), raw)
        })
    }

    /// Fills it with a 32-bit word.
    ///
    /// # Errors
    /// [`HipError::Invalid`] when its address or size is not a multiple of four, or what HIP says.
    pub fn fill_u32(&self, value: u32) -> Result<(), HipError> {
        self.fill_words(value, None)
    }

    /// Puts a fill with a 32-bit word into a stream.
    ///
    /// # Errors
    /// As [`BufferSlice::fill_u32`]; [`HipError::Invalid`] for a stream of another device.
    pub fn fill_u32_on(&self, value: u32, stream: &Stream) -> Result<(), HipError> {
        self.fill_words(value, Some(stream))
    }

    fn fill_words(&self, value: u32, stream: Option<&Stream>) -> Result<(), HipError> {
        if !self.bytes.is_multiple_of(4) || !self.offset.is_multiple_of(4) {
            return Err(HipError::invalid(format!("{} cannot be filled with 32-bit words", self.text())));
        }
        // SAFETY: the memory is live and so long.
        self.in_stream(stream, |raw| unsafe {
            self.buffer.device.api().fill_words(self.pointer(), value, self.size() / 4, raw)
        })
    }

    /// Puts work into a stream; without one, into the null stream, and waits: HIP's own synchronous fills and copies within a device need not wait, and streams
    /// of this crate would not wait for them.
    fn in_stream(
        &self,
        stream: Option<&Stream>,
        work: impl FnOnce(sys::hipStream_t) -> Result<(), HipError>,
    ) -> Result<(), HipError> {
        if self.bytes == 0 {
            return Ok(());
        }
        let result = match stream {
            Some(stream) => {
                stream.same_device(&self.buffer.device, "memory")?;
                work(stream.raw())
            }
            None => {
                let null = std::ptr::null_mut();
                self.buffer.device.make_current()?;
                // SAFETY: NULL stands for the current device's null stream.
                work(null).and_then(|()| unsafe { self.buffer.device.api().stream_synchronize(null) })
            }
        };
        result.map_err(|e| e.about(|| self.text()))
    }

    fn size(&self) -> usize {
        // A buffer of this size was allocated, so it fits.
        self.bytes as usize
    }

    fn same_size(&self, other: u64) -> Result<(), HipError> {
        if self.bytes == other {
            return Ok(());
        }
        Err(HipError::invalid(format!("{other} bytes do not fit {} bytes of device memory exactly", self.bytes)))
    }

    fn text(&self) -> String {
        format!("{} bytes at {:#x}", self.bytes, self.address())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(memory) = NonNull::new(self.memory.as_ref().map_or(std::ptr::null_mut(), Handle::raw)) {
            // SAFETY: the memory is live, and not used after this.
            let result = unsafe { self.device.api().free(memory) };
            self.device.runtime().released(result);
        }
    }
}
