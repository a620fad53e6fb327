//! Tensors of a GPU: candle's memory is lent to kernels on candle's own stream.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::cuda_backend::cudarc::driver::CudaStream;
use candle_core::{CudaStorage, Error, Layout, Result, Shape};
use warpsmith::prelude::*;
use warpsmith::{DeviceSlice, DeviceSliceMut};

/// A stream of candle's as one of warpsmith's, which is kept: kernels stay loaded as long as it lives.
fn stream_of(theirs: &Arc<CudaStream>) -> warpsmith::Result<Stream> {
    static KNOWN: Mutex<Vec<(Arc<CudaStream>, Stream)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, stream)) = known.iter().find(|(known, _)| Arc::ptr_eq(known, theirs)) {
        return Ok(stream.clone());
    }
    let stream = Stream::from_cudarc(theirs)?;
    known.push((Arc::clone(theirs), stream.clone()));
    Ok(stream)
}

/// Queues `work` on candle's stream, with the contiguous float32 tensors `inputs`, all of one shape, and a new one, which it returns.
pub(crate) fn on_gpu<const N: usize>(
    inputs: [(&CudaStorage, &Layout); N],
    work: impl FnOnce(&Stream, [DeviceSlice<'_, f32>; N], DeviceSliceMut<'_, f32>) -> warpsmith::Result<()>,
) -> Result<(CudaStorage, Shape)> {
    let device = inputs[0].0.device.clone();
    let shape = inputs[0].1.shape().clone();
    let mut views = Vec::with_capacity(N);
    for (storage, layout) in inputs {
        let offsets = layout.contiguous_offsets().ok_or_else(|| Error::msg("the tensor is not contiguous"))?;
        views.push(storage.as_cuda_slice::<f32>()?.slice(offsets.0..offsets.1));
    }
    // SAFETY: the kernels write each element, and nobody reads one before.
    let mut result = unsafe { device.alloc::<f32>(shape.elem_count()) }?;
    let run = || -> warpsmith::Result<()> {
        let stream = stream_of(&device.cuda_stream())?;
        stream.cudarc_scope(|scope| {
            let mut read = Vec::with_capacity(N);
            for view in views {
                read.push(scope.read(view)?);
            }
            work(&stream, std::array::from_fn(|at| read[at]), scope.write(result.as_view_mut())?)
        })
    };
    run().map_err(Error::wrap)?;
    Ok((CudaStorage::wrap_cuda_slice(result, device), shape))
}
