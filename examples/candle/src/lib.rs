//! An operation of candle whose work kernels of warpsmith do: [`silu`], with its gradient.
//!
//! Tensors of the host are worked on by the CPU executor, on the tensors' own memory. With the feature `cuda`, tensors of a GPU are worked on
//! there, on candle's stream and without a copy; `README.md` says how to build that.

#[cfg(feature = "cuda")]
mod cuda;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Error, Layout, Result, Shape, Tensor};
use warpsmith::DeviceBuffer;
use warpsmith::prelude::*;
use warpsmith_candle_kernels::{silu, silu_gradient};

/// `x * sigmoid(x)` of each element of a float32 tensor, which has a gradient.
///
/// # Errors
/// For other types of elements, and when a kernel fails. A tensor that is not row-major is copied first.
pub fn silu_of(x: &Tensor) -> Result<Tensor> {
    x.contiguous()?.apply_op1(Silu)
}

struct Silu;

struct SiluGradient;

/// The elements of a contiguous float32 tensor.
fn elements<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let (start, end) = layout.contiguous_offsets().ok_or_else(|| Error::msg("the tensor is not contiguous"))?;
    Ok(&storage.as_slice::<f32>()?[start..end])
}

/// Runs `work` on a stream of the CPU executor, with buffers over `inputs` and one over a new vector, which it returns.
fn on_executor<const N: usize>(
    inputs: [&[f32]; N],
    work: impl FnOnce(&Stream, [&DeviceBuffer<f32>; N], &mut DeviceBuffer<f32>) -> warpsmith::Result<()>,
) -> Result<Vec<f32>> {
    let mut output = vec![0.0f32; inputs[0].len()];
    let run = || -> warpsmith::Result<()> {
        let stream = Device::cpu().stream()?;
        let mut buffers = Vec::with_capacity(N);
        for input in inputs {
            // SAFETY: the slice is borrowed for longer than the buffer lives, and `work` may only read it.
            buffers.push(unsafe { DeviceBuffer::from_raw_parts(&stream, input.as_ptr().cast_mut(), input.len(), ()) }?);
        }
        // SAFETY: the vector lives longer than the buffer, and nobody else uses it meanwhile.
        let mut result = unsafe { DeviceBuffer::from_raw_parts(&stream, output.as_mut_ptr(), output.len(), ()) }?;
        work(&stream, std::array::from_fn(|at| &buffers[at]), &mut result)?;
        stream.synchronize()
    };
    run().map_err(Error::wrap)?;
    Ok(output)
}

impl CustomOp1 for Silu {
    fn name(&self) -> &'static str {
        "silu"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let y = on_executor([elements(storage, layout)?], |stream, [x], y| {
            silu::launch(stream, LaunchConfig::for_len(x.len()), x, y)
        })?;
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        storage: &candle_core::CudaStorage,
        layout: &Layout,
    ) -> Result<(candle_core::CudaStorage, Shape)> {
        cuda::on_gpu([(storage, layout)], |stream, [x], y| silu::launch(stream, LaunchConfig::for_len(x.len()), x, y))
    }

    fn bwd(&self, x: &Tensor, _y: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        x.contiguous()?.apply_op2_no_bwd(&g.contiguous()?, &SiluGradient).map(Some)
    }
}

impl CustomOp2 for SiluGradient {
    fn name(&self) -> &'static str {
        "silu_gradient"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        g: &CpuStorage,
        g_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let inputs = [elements(x, x_layout)?, elements(g, g_layout)?];
        let y = on_executor(inputs, |stream, [x, g], y| {
            silu_gradient::launch(stream, LaunchConfig::for_len(x.len()), x, g, y)
        })?;
        Ok((CpuStorage::F32(y), x_layout.shape().clone()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        x: &candle_core::CudaStorage,
        x_layout: &Layout,
        g: &candle_core::CudaStorage,
        g_layout: &Layout,
    ) -> Result<(candle_core::CudaStorage, Shape)> {
        cuda::on_gpu([(x, x_layout), (g, g_layout)], |stream, [x, g], y| {
            silu_gradient::launch(stream, LaunchConfig::for_len(x.len()), x, g, y)
        })
    }
}
