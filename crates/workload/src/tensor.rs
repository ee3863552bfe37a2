//! Tensors of a case as bytes in the layout that a device sees.

use crate::dtype::Dtype;

/// How a kernel uses a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Read only.
    In,
    /// Written whole; poisoned before each verified launch.
    Out,
    /// Read and written (a residual stream): restored before each verified launch.
    InOut,
}

/// Name, dtype, dims and role of one tensor. Row-major and dense: the last dimension is contiguous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Short lower-case name, unique in the case: `a`, `b`, `out`, `block_table`.
    pub name: &'static str,
    /// Element type.
    pub dtype: Dtype,
    /// Dims, outermost first.
    pub dims: Vec<u64>,
    /// Use.
    pub role: Role,
}

impl TensorSpec {
    /// A read-only tensor.
    pub fn input(name: &'static str, dtype: Dtype, dims: &[u64]) -> Self {
        Self { name, dtype, dims: dims.to_vec(), role: Role::In }
    }

    /// A written tensor.
    pub fn output(name: &'static str, dtype: Dtype, dims: &[u64]) -> Self {
        Self { name, dtype, dims: dims.to_vec(), role: Role::Out }
    }

    /// A tensor that is read and written.
    pub fn inout(name: &'static str, dtype: Dtype, dims: &[u64]) -> Self {
        Self { name, dtype, dims: dims.to_vec(), role: Role::InOut }
    }

    /// Number of elements.
    pub fn elements(&self) -> u128 {
        self.dims.iter().map(|dim| u128::from(*dim)).product()
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u128 {
        self.dtype.bytes(self.elements())
    }
}

/// A tensor with its bytes. Storage is 8-byte aligned so that any element type can be viewed in place.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// What it is.
    pub spec: TensorSpec,
    storage: Vec<u64>,
}

impl Tensor {
    /// A zeroed tensor. `None` when its size does not fit the address space.
    pub fn zeroed(spec: TensorSpec) -> Option<Self> {
        let words = usize::try_from(spec.bytes().div_ceil(8)).ok()?;
        Some(Self { spec, storage: vec![0; words] })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        let bytes = self.spec.bytes() as usize;
        &bytemuck::cast_slice(&self.storage)[..bytes]
    }

    /// Its bytes, writable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.spec.bytes() as usize;
        &mut bytemuck::cast_slice_mut(&mut self.storage)[..bytes]
    }

    /// Its elements as `T`, whose size must be the dtype's.
    ///
    /// # Panics
    /// When `T` has another size than the dtype: a mistake in the caller, never caused by input.
    pub fn view<T: bytemuck::AnyBitPattern>(&self) -> &[T] {
        assert_eq!(size_of::<T>() as u64 * 8, self.spec.dtype.bits(), "{}", self.spec.name);
        bytemuck::cast_slice(self.bytes())
    }

    /// Its elements as `T`, writable; see [`Tensor::view`].
    ///
    /// # Panics
    /// As [`Tensor::view`].
    pub fn view_mut<T: bytemuck::Pod>(&mut self) -> &mut [T] {
        assert_eq!(size_of::<T>() as u64 * 8, self.spec.dtype.bits(), "{}", self.spec.name);
        bytemuck::cast_slice_mut(self.bytes_mut())
    }
}

/// The tensors of one case, in the order of [`crate::Workload::tensors`].
#[derive(Clone, Debug, Default)]
pub struct TensorSet {
    /// The tensors.
    pub tensors: Vec<Tensor>,
}

impl TensorSet {
    /// Zeroed tensors for these specs. `None` when a size does not fit the address space.
    pub fn zeroed(specs: &[TensorSpec]) -> Option<Self> {
        let tensors = specs.iter().cloned().map(Tensor::zeroed).collect::<Option<_>>()?;
        Some(Self { tensors })
    }

    /// Position of a tensor by name.
    ///
    /// # Panics
    /// When there is no such tensor: names are the family's own.
    pub fn index(&self, name: &str) -> usize {
        self.tensors.iter().position(|tensor| tensor.spec.name == name).unwrap_or_else(|| no_tensor(name))
    }

    /// A tensor by name.
    ///
    /// # Panics
    /// When there is no such tensor: names are the family's own.
    pub fn get(&self, name: &str) -> &Tensor {
        &self.tensors[self.index(name)]
    }

    /// A tensor by name, writable.
    ///
    /// # Panics
    /// When there is no such tensor: names are the family's own.
    pub fn get_mut(&mut self, name: &str) -> &mut Tensor {
        let index = self.index(name);
        &mut self.tensors[index]
    }

    /// Takes a tensor out so that it can be written while others are read; put it back with [`TensorSet::put`].
    ///
    /// # Panics
    /// When there is no such tensor: names are the family's own.
    pub fn take(&mut self, name: &str) -> Tensor {
        let index = self.index(name);
        let spec = self.tensors[index].spec.clone();
        std::mem::replace(&mut self.tensors[index], Tensor { spec, storage: Vec::new() })
    }

    /// Puts a taken tensor back.
    ///
    /// # Panics
    /// When there is no such tensor: names are the family's own.
    pub fn put(&mut self, tensor: Tensor) {
        let index = self.index(tensor.spec.name);
        self.tensors[index] = tensor;
    }

    /// Bytes of all tensors.
    pub fn total_bytes(&self) -> u128 {
        self.tensors.iter().map(|tensor| tensor.spec.bytes()).sum()
    }
}

#[allow(clippy::panic)]
fn no_tensor(name: &str) -> ! {
    panic!("the case has no tensor {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_have_the_dtype_s_size() {
        let mut tensor = Tensor::zeroed(TensorSpec::input("x", Dtype::F32, &[3, 5])).unwrap();
        tensor.view_mut::<f32>()[14] = 1.5;
        assert_eq!(tensor.bytes().len(), 60);
        assert_eq!(tensor.view::<f32>()[14], 1.5);
    }

    #[test]
    fn fp4_packs_two_a_byte() {
        let tensor = Tensor::zeroed(TensorSpec::input("x", Dtype::Fp4E2m1, &[3, 3])).unwrap();
        assert_eq!(tensor.bytes().len(), 5);
    }

    #[test]
    fn take_and_put() {
        let specs = [TensorSpec::input("a", Dtype::I32, &[2]), TensorSpec::output("b", Dtype::I32, &[2])];
        let mut set = TensorSet::zeroed(&specs).unwrap();
        let mut b = set.take("b");
        b.view_mut::<i32>().copy_from_slice(&[1, 2]);
        set.put(b);
        assert_eq!(set.get("b").view::<i32>(), [1, 2]);
    }
}
