//! Mapped and managed buffers as arguments: as device buffers are.

use warpsmith_device::GridSliceMut;
use warpsmith_device::abi::{AtomicElement, KernelValue, RawPtr, RawSlice};
use warpsmith_device::view::RawGridSlice;

use super::{Binder, LaunchArg, ShapelessMap};
use crate::error::LaunchError;
use crate::memory::{ManagedBuffer, MappedBuffer};

macro_rules! shared_buffer_arguments {
    ($($name:ident),*) => {$(
        // SAFETY: as for the `DeviceSlice` of the same elements; host access waits for the launch.
        unsafe impl<T: KernelValue> LaunchArg<&'static [T]> for &$name<T> {
            #[inline]
            fn bind(self, binder: &mut Binder<'_>) -> Result<RawSlice<T>, LaunchError> {
                LaunchArg::<&'static [T]>::bind(self.as_slice(), binder)
            }
        }

        // SAFETY: as above.
        unsafe impl<T: KernelValue> LaunchArg<&'static T> for &$name<T> {
            #[inline]
            fn bind(self, binder: &mut Binder<'_>) -> Result<RawPtr<T>, LaunchError> {
                LaunchArg::<&'static T>::bind(self.as_slice(), binder)
            }
        }

        // SAFETY: as for the exclusively borrowed `DeviceBuffer` of the same elements.
        unsafe impl<T: KernelValue, M: ShapelessMap> LaunchArg<GridSliceMut<'static, T, M>> for &mut $name<T> {
            #[inline]
            fn bind(self, binder: &mut Binder<'_>) -> Result<RawGridSlice<T, M>, LaunchError> {
                LaunchArg::<GridSliceMut<'static, T, M>>::bind(self.buffer_mut(), binder)
            }
        }

        // SAFETY: as above.
        unsafe impl<A: AtomicElement> LaunchArg<&'static [A]> for &mut $name<A::Plain>
        where
            A::Plain: KernelValue,
        {
            #[inline]
            fn bind(self, binder: &mut Binder<'_>) -> Result<RawSlice<A>, LaunchError> {
                LaunchArg::<&'static [A]>::bind(self.buffer_mut(), binder)
            }
        }
    )*};
}

shared_buffer_arguments!(MappedBuffer, ManagedBuffer);
