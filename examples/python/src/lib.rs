//! A Python module with a kernel on the tensors of PyTorch, CuPy, JAX, TensorFlow and NumPy, through DLPack and without a copy.

use std::ffi::CStr;
use std::ptr::NonNull;

use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use warpsmith::exchange::{ExchangeStream, Form, ManagedTensor, Tensor, TensorLayout};
use warpsmith::prelude::*;

const LEGACY: &CStr = c"dltensor";
const USED_LEGACY: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

#[kernel]
fn saxpy_kernel(a: f32, x: &[f32], y: &[f32], mut out: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(out) = out.get_mut(&i) {
        *out = a * x[i.get()] + y[i.get()];
    }
}

#[kernel]
fn scale_kernel(a: f32, mut x: GridSliceMut<f32>) {
    if let Some(x) = x.get_mut(&global_idx()) {
        *x *= a;
    }
}

fn python_error(error: impl Into<warpsmith::Error>) -> PyErr {
    match error.into() {
        error @ warpsmith::Error::Exchange(_) => PyBufferError::new_err(error.to_string()),
        error => PyRuntimeError::new_err(error.to_string()),
    }
}

/// Where and in which order a call works.
struct Place {
    stream: Stream,
    /// Whether the stream is the caller's, in whose order its library uses memory again.
    is_callers: bool,
}

impl Place {
    /// The device of a tensor, and the caller's stream by its number. Without one the work has a stream of its own, which is
    /// waited for.
    fn of(tensor: &Bound<'_, PyAny>, number: Option<i64>) -> PyResult<Self> {
        let (kind, ordinal): (i32, usize) = tensor.call_method0("__dlpack_device__")?.extract()?;
        let device = match kind {
            warpsmith::exchange::dlpack::CPU => Device::cpu(),
            _ => Device::gpu(ordinal).map_err(python_error)?,
        };
        if number.is_none() || device.is_cpu() {
            return Ok(Self { stream: device.stream().map_err(python_error)?, is_callers: false });
        }
        // SAFETY: the caller passes the number of its library's current stream, which outlives the call.
        let theirs = unsafe { ExchangeStream::from_dlpack(&device, number) }.map_err(python_error)?;
        // SAFETY: as above; PyTorch never destroys its streams, and who makes one with CuPy keeps it as long as the results.
        let stream = unsafe { Stream::from_exchange(&device, theirs) }.map_err(python_error)?;
        Ok(Self { stream, is_callers: true })
    }

    /// A tensor of another library, ready in this order.
    fn import(&self, tensor: &Bound<'_, PyAny>) -> PyResult<Tensor<f32>> {
        let managed = take(tensor, self.stream.exchange_number())?;
        // SAFETY: the producer describes its own memory, and has made it ready for the stream; the caller leaves it alone meanwhile.
        let mut tensor = unsafe { managed.into_tensor::<f32>(&self.stream) }.map_err(python_error)?;
        if self.is_callers {
            // SAFETY: the memory's library works on this stream too, and orders the reuse of memory after it.
            unsafe { tensor.release_in_order(&self.stream) };
        }
        Ok(tensor)
    }
}

/// Asks a producer for its tensor, in the versioned form if it has that.
fn take(tensor: &Bound<'_, PyAny>, stream: Option<i64>) -> PyResult<ManagedTensor> {
    let py = tensor.py();
    let arguments = PyDict::new(py);
    if let Some(stream) = stream {
        arguments.set_item("stream", stream)?;
    }
    arguments.set_item("max_version", (1, 0))?;
    let capsule = match tensor.call_method("__dlpack__", (), Some(&arguments)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            arguments.del_item("max_version")?;
            tensor.call_method("__dlpack__", (), Some(&arguments))?
        }
        other => other?,
    };
    let object = capsule.as_ptr();
    for (name, used) in [(VERSIONED, USED_VERSIONED), (LEGACY, USED_LEGACY)] {
        // SAFETY: any object may be asked, with the interpreter held.
        if unsafe { ffi::PyCapsule_IsValid(object, name.as_ptr()) } == 0 {
            continue;
        }
        // SAFETY: it is a capsule of this name.
        let raw = NonNull::new(unsafe { ffi::PyCapsule_GetPointer(object, name.as_ptr()) });
        let raw = raw.ok_or_else(|| PyErr::fetch(py))?;
        // SAFETY: as above; under the new name the capsule no longer owns the tensor.
        if unsafe { ffi::PyCapsule_SetName(object, used.as_ptr()) } != 0 {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: a capsule of this name holds such a tensor, which is this function's now. Producers' deleters take the
        // interpreter's lock themselves where they need it.
        return Ok(unsafe {
            if name == VERSIONED {
                ManagedTensor::from_versioned(raw.cast())
            } else {
                ManagedTensor::from_legacy(raw.cast())
            }
        });
    }
    Err(PyTypeError::new_err("`__dlpack__` gave something else than a capsule that was not consumed yet"))
}

/// A result, for the `from_dlpack` of any library: it is handed over once.
#[pyclass]
struct Array {
    tensor: Option<Tensor<f32>>,
    device: (i32, usize),
}

#[pymethods]
impl Array {
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &mut self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, usize)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if dl_device.is_some_and(|device| device != self.device) || copy == Some(true) {
            return Err(PyBufferError::new_err("the array is handed over as it is: without a copy, on its own device"));
        }
        let Some(tensor) = self.tensor.take() else {
            return Err(PyBufferError::new_err("the array was handed over before"));
        };
        // SAFETY: the consumer passes a stream of its own, which outlives this call.
        let consumer = match unsafe { ExchangeStream::from_dlpack(tensor.device(), stream) } {
            Ok(consumer) => consumer,
            Err(error) => {
                self.tensor = Some(tensor);
                return Err(python_error(error));
            }
        };
        let form = if max_version.is_some_and(|(major, _)| major >= 1) { Form::Versioned } else { Form::Legacy };
        let managed = match tensor.into_dlpack(consumer, form) {
            Ok(managed) => managed,
            Err(refused) => {
                self.tensor = Some(refused.value);
                return Err(python_error(refused.error));
            }
        };
        let name = if form == Form::Versioned { VERSIONED } else { LEGACY };
        let raw = managed.into_raw();
        // SAFETY: the name lives as long as the program, and the destructor is for such a capsule.
        let capsule = unsafe { ffi::PyCapsule_New(raw.as_ptr(), name.as_ptr(), Some(drop_capsule)) };
        if capsule.is_null() {
            // SAFETY: nobody else has the tensor.
            drop(unsafe { own(form, raw) });
        }
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
    }

    fn __dlpack_device__(&self) -> (i32, usize) {
        self.device
    }
}

/// # Safety
/// `raw` is an unconsumed tensor of this form.
unsafe fn own(form: Form, raw: NonNull<std::ffi::c_void>) -> ManagedTensor {
    // SAFETY: the caller's promise.
    unsafe {
        match form {
            Form::Versioned => ManagedTensor::from_versioned(raw.cast()),
            Form::Legacy => ManagedTensor::from_legacy(raw.cast()),
        }
    }
}

/// Drops the tensor of a capsule that nobody has consumed: a consumer renames it.
unsafe extern "C" fn drop_capsule(capsule: *mut ffi::PyObject) {
    for (name, form) in [(VERSIONED, Form::Versioned), (LEGACY, Form::Legacy)] {
        // SAFETY: the interpreter calls this with the capsule, and holds its lock.
        unsafe {
            if ffi::PyCapsule_IsValid(capsule, name.as_ptr()) != 0
                && let Some(raw) = NonNull::new(ffi::PyCapsule_GetPointer(capsule, name.as_ptr()))
            {
                drop(own(form, raw));
            }
        }
    }
}

/// `a * x + y` in a new array, on the stream with this number.
#[pyfunction]
#[pyo3(signature = (a, x, y, stream=None))]
fn saxpy(a: f32, x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>, stream: Option<i64>) -> PyResult<Array> {
    let place = Place::of(x, stream)?;
    let (x, y) = (place.import(x)?, place.import(y)?);
    if x.shape() != y.shape() {
        let text = format!("shapes differ: {:?} and {:?}", x.shape(), y.shape());
        return Err(PyBufferError::new_err(text));
    }
    let mut out = place.stream.zeroed::<f32>(x.len()).map_err(python_error)?;
    if !x.is_empty() {
        let (x, y) = (x.as_slice().map_err(python_error)?, y.as_slice().map_err(python_error)?);
        let config = LaunchConfig::for_len(x.len());
        saxpy_kernel::launch(&place.stream, config, a, x, y, &mut out).map_err(python_error)?;
    }
    let layout = TensorLayout::contiguous(x.shape()).map_err(python_error)?;
    let tensor = Tensor::new(out, layout).map_err(python_error)?;
    let device = tensor
        .device()
        .ordinal()
        .map_or((warpsmith::exchange::dlpack::CPU, 0), |ordinal| (warpsmith::exchange::dlpack::CUDA, ordinal));
    finish(&place)?;
    Ok(Array { tensor: Some(tensor), device })
}

/// Multiplies a tensor's elements by `a`, in place, on the stream with this number.
#[pyfunction]
#[pyo3(signature = (a, x, stream=None))]
fn scale(a: f32, x: &Bound<'_, PyAny>, stream: Option<i64>) -> PyResult<()> {
    let place = Place::of(x, stream)?;
    let mut x = place.import(x)?;
    let elements = x.as_slice_mut().map_err(python_error)?;
    if !elements.is_empty() {
        let config = LaunchConfig::for_len(elements.len());
        scale_kernel::launch(&place.stream, config, a, elements).map_err(python_error)?;
    }
    finish(&place)
}

/// Waits where the caller's library does not know the stream, and reports what went wrong.
fn finish(place: &Place) -> PyResult<()> {
    if place.is_callers { Ok(()) } else { place.stream.synchronize().map_err(python_error) }
}

#[pymodule]
fn exchange_kernels(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Array>()?;
    module.add_function(wrap_pyfunction!(saxpy, module)?)?;
    module.add_function(wrap_pyfunction!(scale, module)?)
}
