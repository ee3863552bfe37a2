//! What can be asked of a device and of a kernel.

use crate::sys;

/// An attribute of a device. Libraries that do not know one say so ([`Device::attribute`](super::Device::attribute) gives `None`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Attribute {
    /// Peak engine clock, kHz.
    ClockRate,
    /// L2 size of one XCD, bytes.
    L2CacheSize,
    /// Most work-items of a workgroup.
    MaxThreadsPerBlock,
    /// Most work-items on a multiprocessor at a time.
    MaxThreadsPerMultiprocessor,
    /// Width of the memory bus, bits.
    MemoryBusWidth,
    /// Peak memory clock, kHz. On HBM3 the data rate is four times it, not two.
    MemoryClockRate,
    /// Multiprocessors: CUs on CDNA, WGPs of two CUs on RDNA.
    MultiprocessorCount,
    /// PCI bus number.
    PciBusId,
    /// PCI device number.
    PciDeviceId,
    /// Most LDS of a workgroup, bytes.
    MaxSharedMemoryPerBlock,
    /// Lanes of a wave.
    WarpSize,
    /// LDS of a multiprocessor, bytes.
    MaxSharedMemoryPerMultiprocessor,
    /// Silicon revision.
    AsicRevision,
    /// CUs, also on RDNA.
    PhysicalMultiprocessorCount,
    /// Rate of the clock behind `wall_clock64()`, kHz (HIP 6 and later).
    WallClockRate,
    /// XCDs (HIP 7).
    NumberOfXccs,
    /// Most vector registers of a work-item (HIP 7).
    MaxAvailableVgprsPerThread,
    /// PCI device identity (HIP 7).
    PciChipId,
}

impl Attribute {
    /// HIP's number for it.
    #[must_use]
    pub fn id(self) -> u32 {
        match self {
            Self::ClockRate => sys::hipDeviceAttributeClockRate,
            Self::L2CacheSize => sys::hipDeviceAttributeL2CacheSize,
            Self::MaxThreadsPerBlock => sys::hipDeviceAttributeMaxThreadsPerBlock,
            Self::MaxThreadsPerMultiprocessor => sys::hipDeviceAttributeMaxThreadsPerMultiProcessor,
            Self::MemoryBusWidth => sys::hipDeviceAttributeMemoryBusWidth,
            Self::MemoryClockRate => sys::hipDeviceAttributeMemoryClockRate,
            Self::MultiprocessorCount => sys::hipDeviceAttributeMultiprocessorCount,
            Self::PciBusId => sys::hipDeviceAttributePciBusId,
            Self::PciDeviceId => sys::hipDeviceAttributePciDeviceId,
            Self::MaxSharedMemoryPerBlock => sys::hipDeviceAttributeMaxSharedMemoryPerBlock,
            Self::WarpSize => sys::hipDeviceAttributeWarpSize,
            Self::MaxSharedMemoryPerMultiprocessor => sys::hipDeviceAttributeMaxSharedMemoryPerMultiprocessor,
            Self::AsicRevision => sys::hipDeviceAttributeAsicRevision,
            Self::PhysicalMultiprocessorCount => sys::hipDeviceAttributePhysicalMultiProcessorCount,
            Self::WallClockRate => sys::hipDeviceAttributeWallClockRate,
            Self::NumberOfXccs => sys::hipDeviceAttributeNumberOfXccs,
            Self::MaxAvailableVgprsPerThread => sys::hipDeviceAttributeMaxAvailableVgprsPerThread,
            Self::PciChipId => sys::hipDeviceAttributePciChipId,
        }
    }
}

/// An attribute of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FunctionAttribute {
    /// Most work-items of a workgroup.
    MaxThreadsPerBlock,
    /// Static LDS, bytes.
    SharedSizeBytes,
    /// Constant memory, bytes.
    ConstSizeBytes,
    /// Scratch of a work-item, bytes.
    LocalSizeBytes,
    /// Vector registers of a work-item. Code-object metadata is the better source: drivers may round.
    NumRegs,
    /// Most dynamic LDS of a launch, bytes.
    MaxDynamicSharedSizeBytes,
}

impl FunctionAttribute {
    /// HIP's number for it.
    #[must_use]
    pub fn id(self) -> u32 {
        match self {
            Self::MaxThreadsPerBlock => sys::HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
            Self::SharedSizeBytes => sys::HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
            Self::ConstSizeBytes => sys::HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
            Self::LocalSizeBytes => sys::HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
            Self::NumRegs => sys::HIP_FUNC_ATTRIBUTE_NUM_REGS,
            Self::MaxDynamicSharedSizeBytes => sys::HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        }
    }
}
