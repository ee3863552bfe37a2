//! A code object in device memory.

use crate::exec::Compiler;
use crate::isa::{Arch, NotExecuted};
use crate::mem::{Memory, MemoryError};
use crate::program::Program;
use kbench_code_object::{CodeObject, Kernel};
use std::sync::{Arc, Mutex, PoisonError};

/// Programs that a module keeps: one for each register allocation of its kernels.
const PROGRAMS: usize = 32;

/// Why a code object cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is no sound code object.
    #[error("{0}")]
    CodeObject(#[from] kbench_code_object::Error),
    /// It is for another GPU.
    #[error("the code object is for {found}, the emulated device is a {wanted}")]
    Arch {
        /// The code object's.
        found: String,
        /// The device's.
        wanted: &'static str,
    },
    /// It is for a GPU that is not emulated yet.
    #[error("the code object cannot be run: {0}")]
    NotExecuted(#[from] NotExecuted),
    /// Memory.
    #[error("{0}")]
    Memory(#[from] MemoryError),
}

/// A loaded code object.
#[derive(Debug)]
pub struct Module {
    object: CodeObject,
    base: u64,
    code: (u64, u64),
    /// The steps made so far, newest last: kernels with the same registers share them from launch to launch.
    programs: Mutex<Vec<Program>>,
}

impl Module {
    /// Loads a code object: segments copied and relocated.
    ///
    /// # Errors
    /// When it is damaged, for another arch, or does not fit.
    pub fn load(memory: &mut Memory, arch: Arch, bytes: &[u8]) -> Result<Self, LoadError> {
        let object = CodeObject::parse(bytes)?;
        let found = object.arch().name();
        if Arch::from_name(found) != Some(arch) {
            return Err(LoadError::Arch { found: found.to_string(), wanted: arch.name() });
        }
        arch.check_executed()?;
        // Instruction fetch runs ahead of the code, as kernels' padding shows, so the image alone is allocated.
        let base = memory.allocate(object.memory_size(), "code object")?;
        let image = object.memory_image(base, |_| None)?;
        memory.write(base, &image)?;
        let executable = object.segments().iter().filter(|segment| segment.executable);
        let start = executable.clone().map(|segment| segment.address).min().unwrap_or(0) & !3;
        let end = executable.map(|segment| segment.end()).max().unwrap_or(0);
        Ok(Self { object, base, code: (start, end), programs: Mutex::default() })
    }

    /// Its kernels.
    pub fn kernels(&self) -> &[Kernel] {
        self.object.kernels()
    }

    /// A kernel by name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.object.kernel(name)
    }

    /// The code object.
    pub fn object(&self) -> &CodeObject {
        &self.object
    }

    /// Device address of virtual address 0.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The program of the code as device memory has it now. Steps of earlier launches are used again, unless the code has
    /// been written to since.
    ///
    /// # Errors
    /// When the memory is not the one it was loaded to.
    pub(super) fn program(&self, memory: &Memory, compiler: Compiler) -> Result<Program, MemoryError> {
        let (first, end) = self.code;
        let now = memory.bytes(self.base + first, end - first)?;
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let code = match programs.last() {
            Some(newest) if **newest.code() == *now => Arc::clone(newest.code()),
            _ => {
                programs.clear();
                Arc::from(now)
            }
        };
        if let Some(known) = programs.iter().find(|program| *program.compiler() == compiler) {
            return Ok(known.clone());
        }
        if programs.len() == PROGRAMS {
            programs.remove(0);
        }
        let program = Program::new(compiler, code);
        programs.push(program.clone());
        Ok(program)
    }

    /// Virtual address of the first executable byte: where program counters count from.
    pub fn code_start(&self) -> u64 {
        self.code.0
    }

    /// Device address of a global variable, and its size.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        let symbol = self.object.symbol(name)?;
        Some((self.base + symbol.address, symbol.size))
    }

    /// Gives its memory back.
    ///
    /// # Errors
    /// When the memory is not the one it was loaded to.
    pub fn unload(self, memory: &mut Memory) -> Result<(), MemoryError> {
        memory.free(self.base)
    }
}
