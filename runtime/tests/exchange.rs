//! Memory shared with other libraries: DLPack, the CUDA array interface and addresses, with kernels on what comes in.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpsmith::exchange::dlpack::{
    CPU, CUDA, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, FLAG_READ_ONLY,
};
use warpsmith::exchange::{
    Complex32, Complex64, CudaArrayInterface, DataType, ExchangeElement, ExchangeError, ExchangeStream, Form,
    ManagedTensor, Refused, Tensor, TensorLayout,
};
use warpsmith::prelude::*;
use warpsmith::{Error, MemoryError};

mod common;
use common::kernel_devices;

#[kernel]
fn triple(x: &[f32], mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        *y = 3.0 * x[i.get()];
    }
}

#[kernel]
fn add_one(mut y: GridSliceMut<f32>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y += 1.0;
    }
}

#[kernel]
fn gather(x: &[f32], columns: u32, row_stride: u32, column_stride: u32, mut y: GridSliceMut<f32>) {
    let i = global_idx();
    if let Some(y) = y.get_mut(&i) {
        let (row, column) = (i.get() / columns as usize, i.get() % columns as usize);
        *y = x[row * row_stride as usize + column * column_stride as usize];
    }
}

/// A producer's tensor over memory that the test keeps, which counts calls of its deleter.
struct Producer {
    shape: Vec<i64>,
    strides: Option<Vec<i64>>,
    tensor: DLTensor,
    deleted: Arc<AtomicUsize>,
}

impl Producer {
    /// Row-major float32 on the host.
    fn new(data: *mut c_void, shape: &[i64]) -> Self {
        let tensor = DLTensor {
            data,
            device: DLDevice { device_type: CPU, device_id: 0 },
            ndim: i32::try_from(shape.len()).unwrap(),
            dtype: f32::DATA_TYPE,
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        Self { shape: shape.to_vec(), strides: None, tensor, deleted: Arc::default() }
    }

    fn strides(mut self, strides: &[i64]) -> Self {
        self.strides = Some(strides.to_vec());
        self
    }

    fn with(mut self, change: impl FnOnce(&mut DLTensor)) -> Self {
        change(&mut self.tensor);
        self
    }

    fn make(mut self, form: Form, version: (u32, u32), flags: u64) -> (ManagedTensor, Arc<AtomicUsize>) {
        self.tensor.shape = self.shape.as_mut_ptr();
        self.tensor.strides = self.strides.as_mut().map_or(std::ptr::null_mut(), |strides| strides.as_mut_ptr());
        let (tensor, deleted) = (self.tensor, Arc::clone(&self.deleted));
        let context = Box::into_raw(Box::new(self)).cast();
        let managed = match form {
            Form::Versioned => {
                let version = DLPackVersion { major: version.0, minor: version.1 };
                let deleter = Some(delete_versioned as unsafe extern "C" fn(_));
                let managed =
                    DLManagedTensorVersioned { version, manager_ctx: context, deleter, flags, dl_tensor: tensor };
                let raw = NonNull::new(Box::into_raw(Box::new(managed))).unwrap();
                // SAFETY: the tensor was made just now, and its deleter takes no thread's own state.
                unsafe { ManagedTensor::from_versioned(raw) }
            }
            Form::Legacy => {
                let deleter = Some(delete_legacy as unsafe extern "C" fn(_));
                let managed = DLManagedTensor { dl_tensor: tensor, manager_ctx: context, deleter };
                let raw = NonNull::new(Box::into_raw(Box::new(managed))).unwrap();
                // SAFETY: as above.
                unsafe { ManagedTensor::from_legacy(raw) }
            }
        };
        (managed, deleted)
    }

    fn versioned(self) -> (ManagedTensor, Arc<AtomicUsize>) {
        self.make(Form::Versioned, (1, 1), 0)
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: both boxes were leaked by `make`, and this is called once.
    let producer = unsafe { Box::from_raw(Box::from_raw(managed).manager_ctx.cast::<Producer>()) };
    producer.deleted.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn delete_legacy(managed: *mut DLManagedTensor) {
    // SAFETY: as above.
    let producer = unsafe { Box::from_raw(Box::from_raw(managed).manager_ctx.cast::<Producer>()) };
    producer.deleted.fetch_add(1, Ordering::Relaxed);
}

/// Takes a tensor over memory that outlives it in the test.
fn import<T: ExchangeElement>(
    managed: ManagedTensor,
    stream: &Stream,
) -> Result<Tensor<T>, Box<Refused<ManagedTensor>>> {
    // SAFETY: the tests describe memory of theirs as it is, keep it longer than the tensor and leave it alone meanwhile.
    unsafe { managed.into_tensor(stream) }
}

#[expect(clippy::boxed_local, reason = "the tests have it from `unwrap_err`")]
fn exchange_error<V>(refused: Box<Refused<V>>) -> ExchangeError {
    match refused.error {
        Error::Exchange(error) => error,
        other => panic!("{other}"),
    }
}

fn cpu() -> Stream {
    Device::cpu().stream().unwrap()
}

#[test]
fn case_k1_a_kernel_reads_and_writes_a_tensor_without_a_copy() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        for form in [Form::Versioned, Form::Legacy] {
            let x = stream.to_device(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
            let address = x.as_device_ptr();
            let x = Tensor::new(x, TensorLayout::contiguous(&[2, 3]).unwrap()).unwrap();
            let given = x.into_dlpack(ExchangeStream::UNORDERED, form).unwrap();
            assert_eq!(given.form(), form);
            let expected = if device.is_cpu() { CPU } else { CUDA };
            assert_eq!(given.device().unwrap().device_type, expected);
            let mut x = import::<f32>(given, &stream).unwrap();
            assert_eq!(x.shape(), [2, 3]);
            let mut y = stream.zeroed::<f32>(6).unwrap();
            triple::launch(&stream, LaunchConfig::for_len(6), x.as_slice().unwrap(), &mut y).unwrap();
            add_one::launch(&stream, LaunchConfig::for_len(6), x.as_slice_mut().unwrap()).unwrap();
            assert_eq!(stream.to_host(&y).unwrap(), [3.0, 6.0, 9.0, 12.0, 15.0, 18.0]);
            assert_eq!(x.to_host(&stream).unwrap(), [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
            assert!(std::ptr::eq(address, raw_address(&x)));
        }
    }
}

fn raw_address(x: &Tensor<f32>) -> *const f32 {
    let array = x.cuda_array_interface(ExchangeStream::UNORDERED);
    match array {
        Ok(array) => std::ptr::without_provenance(usize::try_from(array.data.0).unwrap()),
        // On the executor a reader sees the address.
        Err(_) => {
            let span = x.as_span();
            let mut found = std::ptr::null();
            let stream = x.device().stream().unwrap();
            let mut y = stream.zeroed::<u64>(1).unwrap();
            address_of::launch(&stream, LaunchConfig::new(1, 1), span, &mut y).unwrap();
            for address in stream.to_host(&y).unwrap() {
                found = std::ptr::without_provenance(usize::try_from(address).unwrap());
            }
            found
        }
    }
}

#[kernel]
fn address_of(x: &[f32], mut y: GridSliceMut<u64>) {
    if let Some(y) = y.get_mut(&global_idx()) {
        *y = x.as_ptr().addr() as u64;
    }
}

#[test]
fn case_k1_the_deleter_is_called_once() {
    let stream = cpu();
    let numbers = [1.0f32, 2.0, 3.0, 4.0];
    for form in [Form::Versioned, Form::Legacy] {
        let make = || Producer::new(numbers.as_ptr().cast_mut().cast(), &[2, 2]).make(form, (1, 0), 0);
        let (managed, deleted) = make();
        drop(managed);
        assert_eq!(deleted.load(Ordering::Relaxed), 1);
        // A use, also on another thread and past the stream.
        let (managed, deleted) = make();
        let tensor = import::<f32>(managed, &cpu()).unwrap();
        let sum: f32 = std::thread::spawn(move || tensor.to_host(&cpu()).unwrap().iter().sum()).join().unwrap();
        assert_eq!((sum, deleted.load(Ordering::Relaxed)), (10.0, 1));
        // A refusal hands the tensor back, and nothing is lost.
        let (managed, deleted) = make();
        let refused = import::<f64>(managed, &stream).unwrap_err();
        assert_eq!(deleted.load(Ordering::Relaxed), 0);
        let tensor = import::<f32>(refused.value, &stream).unwrap();
        drop(tensor);
        assert_eq!(deleted.load(Ordering::Relaxed), 1);
        // A refusal that nobody looks at, passed on with `?`.
        let (managed, deleted) = make();
        let error: Error = import::<f64>(managed, &stream).unwrap_err().into();
        assert_eq!(deleted.load(Ordering::Relaxed), 1);
        assert!(error.to_string().contains("the elements are float32; `f64` is float64"), "{error}");
        // Given on to the next consumer.
        let (managed, deleted) = make();
        let tensor = import::<f32>(managed, &stream).unwrap();
        let again = tensor.into_dlpack(ExchangeStream::UNORDERED, form).unwrap();
        assert_eq!(deleted.load(Ordering::Relaxed), 0);
        drop(again);
        assert_eq!(deleted.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn case_k1_shapes_that_are_odd() {
    let stream = cpu();
    let numbers: Vec<f32> = (0..24u8).map(f32::from).collect();
    let data = numbers.as_ptr().cast_mut().cast::<c_void>();
    let taken = |producer: Producer| {
        let tensor = import::<f32>(producer.versioned().0, &stream).unwrap();
        (tensor.as_slice().is_ok(), tensor.to_host(&stream).unwrap(), tensor.shape().to_vec())
    };
    // A single number, with shape and strides null.
    assert_eq!(taken(Producer::new(data, &[])), (true, vec![0.0], vec![]));
    // Extents of 1 with strides that mean nothing, negative and huge ones too.
    let odd = Producer::new(data, &[1, 3, 1]).strides(&[-7, 1, i64::MAX]);
    assert_eq!(taken(odd), (true, vec![0.0, 1.0, 2.0], vec![1, 3, 1]));
    // No elements: no address, any strides.
    let empty = Producer::new(std::ptr::null_mut(), &[3, 0, 2]).strides(&[-1, -1, -1]);
    assert_eq!(taken(empty), (true, vec![], vec![3, 0, 2]));
    // Column-major, gaps, and the same elements again.
    let columns = Producer::new(data, &[2, 3]).strides(&[1, 2]);
    assert_eq!(taken(columns), (false, vec![0.0, 2.0, 4.0, 1.0, 3.0, 5.0], vec![2, 3]));
    let gaps = Producer::new(data, &[2, 2]).strides(&[4, 1]);
    assert_eq!(taken(gaps), (false, vec![0.0, 1.0, 4.0, 5.0], vec![2, 2]));
    let same = Producer::new(data, &[2, 2]).strides(&[0, 1]);
    assert_eq!(taken(same), (false, vec![0.0, 1.0, 0.0, 1.0], vec![2, 2]));
    // Elements that begin later.
    let later = Producer::new(data, &[2]).with(|tensor| tensor.byte_offset = 8);
    assert_eq!(taken(later), (true, vec![2.0, 3.0], vec![2]));
}

#[test]
fn case_k1_types_of_elements() {
    fn check<T: ExchangeElement + PartialEq + std::fmt::Debug>(values: &[T], code: u8, bits: u8, lanes: u16) {
        assert_eq!(T::DATA_TYPE, DataType { code, bits, lanes });
        for device in common::devices() {
            let stream = device.stream().unwrap();
            let buffer = stream.to_device(values).unwrap();
            let layout = TensorLayout::contiguous(&[values.len()]).unwrap();
            let tensor = Tensor::new(buffer, layout).unwrap();
            let managed = tensor.into_dlpack(ExchangeStream::UNORDERED, Form::Versioned).unwrap();
            assert_eq!(managed.data_type().unwrap(), T::DATA_TYPE);
            let tensor = import::<T>(managed, &stream).unwrap();
            assert_eq!(tensor.to_host(&stream).unwrap(), values);
        }
    }
    check(&[true, false, true], 6, 8, 1);
    check(&[half::bf16::from_f32(1.5), half::bf16::NEG_INFINITY], 4, 16, 1);
    check(&[half::f16::from_f32(1.5)], 2, 16, 1);
    check(&[Complex32 { re: 1.0, im: -2.0 }, Complex32::default()], 5, 64, 1);
    check(&[Complex64 { re: 1.0, im: -2.0 }], 5, 128, 1);
    check(&[F32x4([1.0, 2.0, 3.0, 4.0])], 2, 32, 4);
    check(&[-1i8, 1], 0, 8, 1);
    check(&[u64::MAX], 1, 64, 1);
}

#[test]
fn case_k1_what_is_refused() {
    let stream = cpu();
    let numbers = [0.0f32; 8];
    let data = numbers.as_ptr().cast_mut().cast::<c_void>();
    let refuse = |producer: Producer| {
        let (managed, deleted) = producer.versioned();
        let refused = import::<f32>(managed, &stream).unwrap_err();
        assert_eq!(deleted.load(Ordering::Relaxed), 0, "a refusal consumes nothing");
        exchange_error(refused)
    };
    let producer = |shape: &[i64]| Producer::new(data, shape);
    let error = refuse(producer(&[3]).strides(&[-1]));
    assert!(matches!(error, ExchangeError::NegativeStride { axis: 0, stride: -1 }), "{error}");
    let error = refuse(producer(&[2, -3]));
    assert!(matches!(error, ExchangeError::NegativeExtent { axis: 1, extent: -3 }), "{error}");
    let error = refuse(producer(&[2]).with(|tensor| tensor.ndim = -1));
    assert!(matches!(error, ExchangeError::Dimensions { ndim: -1 }), "{error}");
    let error = refuse(producer(&[i64::MAX, i64::MAX]));
    assert!(matches!(error, ExchangeError::TooLarge { .. }), "{error}");
    let error = refuse(Producer::new(std::ptr::null_mut(), &[2]));
    assert!(matches!(error, ExchangeError::Null { len: 2 }), "{error}");
    let error = refuse(producer(&[2]).with(|tensor| tensor.byte_offset = 2));
    assert!(matches!(error, ExchangeError::Misaligned { align: 4, .. }), "{error}");
    let error = refuse(producer(&[2]).with(|tensor| tensor.dtype.lanes = 2));
    assert!(error.to_string().contains("the elements are float32 in 2 lanes; `f32` is float32"), "{error}");
    let error = refuse(producer(&[2]).with(|tensor| tensor.device = DLDevice { device_type: CUDA, device_id: 3 }));
    assert!(error.to_string().contains("the tensor lives in memory of GPU 3, which CPU executor"), "{error}");
    let error = refuse(producer(&[2]).with(|tensor| tensor.device.device_type = 10));
    assert!(error.to_string().contains("memory of DLPack's device type 10"), "{error}");

    // Another major version: nothing but the deleter is touched.
    let (managed, deleted) = producer(&[2]).make(Form::Versioned, (2, 0), 0);
    let refused = import::<f32>(managed, &stream).unwrap_err();
    assert!(matches!(exchange_error(refused), ExchangeError::Version { major: 2, minor: 0 }));
    assert_eq!(deleted.load(Ordering::Relaxed), 1);

    // More bytes than there are.
    let (managed, _) = producer(&[i64::MAX]).versioned();
    let error = import::<f32>(managed, &stream).unwrap_err().error;
    assert!(matches!(error, Error::Memory(MemoryError::SizeOverflow { .. })), "{error}");
}

#[test]
fn case_k1_tensors_that_may_only_be_read() {
    let stream = cpu();
    let numbers = [1.0f32, 2.0];
    let producer = Producer::new(numbers.as_ptr().cast_mut().cast(), &[2]);
    let (managed, deleted) = producer.make(Form::Versioned, (1, 0), FLAG_READ_ONLY);
    let mut tensor = import::<f32>(managed, &stream).unwrap();
    assert!(tensor.is_read_only() && tensor.as_slice().is_ok());
    let error = tensor.as_slice_mut().unwrap_err();
    assert!(matches!(error, Error::Exchange(ExchangeError::ReadOnly { .. })), "{error}");
    // It stays so on the way out, and the legacy form cannot say it.
    let refused = tensor.into_dlpack(ExchangeStream::UNORDERED, Form::Legacy).unwrap_err();
    let given = refused.value.into_dlpack(ExchangeStream::UNORDERED, Form::Versioned).unwrap();
    assert!(given.is_read_only().unwrap());
    drop(given);
    assert_eq!(deleted.load(Ordering::Relaxed), 1);
    // A shared buffer may be read on both sides, and lives as long as the longer of them.
    let buffer = Arc::new(stream.to_device(&[5u8, 6]).unwrap());
    let layout = TensorLayout::contiguous(&[2]).unwrap();
    let shared = Tensor::shared(Arc::clone(&buffer), layout).unwrap();
    let given = shared.into_dlpack(ExchangeStream::UNORDERED, Form::Versioned).unwrap();
    assert!(given.is_read_only().unwrap());
    assert_eq!(Arc::strong_count(&buffer), 2);
    let theirs = import::<u8>(given, &stream).unwrap();
    assert_eq!((theirs.to_host(&stream).unwrap(), stream.to_host(&*buffer).unwrap()), (vec![5, 6], vec![5, 6]));
    drop(theirs);
    assert_eq!(Arc::strong_count(&buffer), 1);
}

#[test]
fn case_k1_the_consumers_stream() {
    let cpu = Device::cpu();
    // SAFETY: no number here is a handle.
    let stream = |device: &Device, value| unsafe { ExchangeStream::from_dlpack(device, value) };
    assert_eq!(stream(&cpu, None).unwrap(), ExchangeStream::UNORDERED);
    assert_eq!(stream(&cpu, Some(-1)).unwrap(), ExchangeStream::UNORDERED);
    assert!(matches!(stream(&cpu, Some(1)), Err(ExchangeError::StreamOnCpu { value: 1 })));
    assert_eq!(cpu.stream().unwrap().exchange_number(), None);
    let Some(gpu) = common::gpu() else { return };
    assert_eq!(stream(&gpu, None).unwrap(), ExchangeStream::LEGACY_DEFAULT);
    assert_eq!(stream(&gpu, Some(1)).unwrap().number(), Some(1));
    assert_eq!(stream(&gpu, Some(2)).unwrap(), ExchangeStream::PER_THREAD_DEFAULT);
    assert_eq!(stream(&gpu, Some(-1)).unwrap(), ExchangeStream::UNORDERED);
    assert!(matches!(stream(&gpu, Some(0)), Err(ExchangeError::StreamNumber { value: 0 })));
    assert!(matches!(stream(&gpu, Some(-2)), Err(ExchangeError::StreamNumber { value: -2 })));
}

#[test]
fn case_k1_work_on_the_consumers_stream_sees_the_kernels_result() {
    for device in kernel_devices().into_iter().filter(Device::is_gpu) {
        let (producing, consuming) = (device.stream().unwrap(), device.stream().unwrap());
        // SAFETY: the handle is of a stream that lives longer.
        let numbers = [Some(1), Some(2), consuming.exchange_number()]
            .map(|number| unsafe { ExchangeStream::from_dlpack(&device, number).unwrap() });
        for consumer in numbers {
            let mut x = producing.zeroed::<f32>(1 << 20).unwrap();
            for _ in 0..100 {
                add_one::launch(&producing, LaunchConfig::for_len(1 << 20), &mut x).unwrap();
            }
            let x = Tensor::new(x, TensorLayout::contiguous(&[1 << 20]).unwrap()).unwrap();
            let given = x.into_dlpack(consumer, Form::Versioned).unwrap();
            // SAFETY: the handle lives longer, and this thread keeps it.
            let theirs = unsafe { Stream::from_exchange(&device, consumer) }.unwrap();
            let mut x = import::<f32>(given, &theirs).unwrap();
            add_one::launch(&theirs, LaunchConfig::for_len(1 << 20), x.as_slice_mut().unwrap()).unwrap();
            assert!(x.to_host(&theirs).unwrap().iter().all(|&value| value == 101.0));
        }
    }
}

#[test]
fn case_k1_random_shapes_and_strides_come_back() {
    let seed = std::env::var("EXCHANGE_SEED").map_or(0x5eed, |seed| seed.parse().expect("a number"));
    println!("EXCHANGE_SEED={seed}");
    let mut state: u64 = seed;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((state >> 33) % below).unwrap()
    };
    let stream = cpu();
    for round in 0..300 {
        let rank = random(5);
        let shape: Vec<usize> =
            (0..rank).map(|_| [0, 1, 1, 2, 3, 5, 2, 4][random(if round % 7 == 0 { 8 } else { 7 })]).collect();
        // Each dimension steps over those before it in some order, with gaps.
        let mut order: Vec<usize> = (0..rank).collect();
        (1..rank).rev().for_each(|at| order.swap(at, random(at as u64 + 1)));
        let (mut strides, mut step) = (vec![0; rank], 1);
        for &axis in &order {
            step += random(3);
            strides[axis] = step;
            step *= shape[axis].max(1);
        }
        let layout = TensorLayout::strided(&shape, &strides).unwrap();
        let data: Vec<u32> = (0..u32::try_from(layout.span() + random(3)).unwrap()).collect();
        let expected = by_index(&shape, &strides, &data);
        let form = if round % 2 == 0 { Form::Versioned } else { Form::Legacy };
        let tensor = Tensor::new(stream.to_device(&data).unwrap(), layout.clone()).unwrap();
        let managed = tensor.into_dlpack(ExchangeStream::UNORDERED, form).unwrap();
        let back = import::<u32>(managed, &stream).unwrap();
        assert_eq!(back.to_host(&stream).unwrap(), expected, "{layout:?}");
        assert_eq!(back.shape(), shape);
        // A dense slice is there exactly where the elements lie one after the other.
        let in_order = layout.offsets().eq(0..layout.len());
        assert_eq!(back.as_slice().is_ok(), in_order, "{layout:?}");
    }
}

/// The elements by their indices, last index fastest.
fn by_index(shape: &[usize], strides: &[usize], data: &[u32]) -> Vec<u32> {
    match (shape, strides) {
        ([extent, shape @ ..], [stride, strides @ ..]) => {
            (0..*extent).flat_map(|index| by_index(shape, strides, &data[(index * stride).min(data.len())..])).collect()
        }
        _ => vec![data[0]],
    }
}

#[test]
fn a_kernel_reads_a_tensor_by_its_strides() {
    for device in kernel_devices() {
        let stream = device.stream().unwrap();
        let x = stream.to_device(&[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let x = Tensor::new(x, TensorLayout::column_major(&[2, 3]).unwrap()).unwrap();
        let mut y = stream.zeroed::<f32>(6).unwrap();
        let strides = x.layout().strides().to_vec();
        let (row, column) = (u32::try_from(strides[0]).unwrap(), u32::try_from(strides[1]).unwrap());
        gather::launch(&stream, LaunchConfig::for_len(6), x.as_span(), 3, row, column, &mut y).unwrap();
        assert_eq!(stream.to_host(&y).unwrap(), x.to_host(&stream).unwrap());
    }
}

#[test]
fn a_buffer_over_an_address() {
    let stream = cpu();
    let numbers = vec![1.0f32, 2.0, 3.0, 4.0, 5.0];
    let keeper = Arc::new(numbers);
    let address = keeper.as_ptr().cast_mut();
    // SAFETY: the vector is kept by the buffer, and written through it alone, before anything else reads.
    let mut buffer = unsafe { DeviceBuffer::from_raw_parts(&stream, address, 5, Arc::clone(&keeper)) }.unwrap();
    buffer.copy_from_host(&stream, &[6.0; 5]).unwrap();
    assert_eq!(stream.to_host(&buffer).unwrap(), [6.0; 5]);
    drop(buffer);
    assert_eq!((Arc::strong_count(&keeper), keeper[4]), (1, 6.0));
    // What is refused hands the keeper back.
    // SAFETY: refused.
    let null = unsafe { DeviceBuffer::<f32>::from_raw_parts(&stream, std::ptr::null_mut(), 1, Arc::clone(&keeper)) };
    assert!(matches!(exchange_error(null.unwrap_err()), ExchangeError::Null { len: 1 }));
    // SAFETY: refused.
    let odd = unsafe { DeviceBuffer::from_raw_parts(&stream, address.wrapping_byte_add(1), 1, keeper) }.unwrap_err();
    assert_eq!(odd.value.len(), 5);
    assert!(matches!(exchange_error(odd), ExchangeError::Misaligned { align: 4, .. }));
    // SAFETY: no elements.
    let none = unsafe { DeviceBuffer::<u64>::from_raw_parts(&stream, std::ptr::null_mut(), 0, ()) }.unwrap();
    assert!(none.is_empty() && stream.to_host(&none).unwrap().is_empty());
}

#[test]
fn vectors_of_a_buffer_that_is_not_aligned_for_them() {
    #[repr(align(16))]
    struct Aligned([f32; 9]);
    let stream = cpu();
    let mut numbers = Aligned([1.0; 9]);
    let address = numbers.0.as_mut_ptr();
    // SAFETY: the numbers live longer, and nobody else uses them.
    let aligned = unsafe { DeviceBuffer::from_raw_parts(&stream, address, 8, ()) }.unwrap();
    assert_eq!(aligned.as_vectors::<F32x4>().unwrap().len(), 2);
    drop(aligned);
    // SAFETY: as above.
    let later = unsafe { DeviceBuffer::from_raw_parts(&stream, address.wrapping_add(1), 8, ()) }.unwrap();
    let error = later.as_vectors::<F32x4>().unwrap_err();
    assert!(matches!(error, Error::Memory(MemoryError::VectorsMisaligned { align: 16, .. })), "{error}");
}

fn array(shape: &[i64], strides: Option<&[i64]>) -> CudaArrayInterface {
    CudaArrayInterface {
        shape: shape.to_vec(),
        typestr: "<f4".to_owned(),
        data: (0, false),
        strides: strides.map(<[i64]>::to_vec),
        mask: false,
        version: 3,
        stream: None,
    }
}

#[test]
fn case_k2_shapes_strides_and_types() {
    let layout = |shape: &[i64], strides: Option<&[i64]>| array(shape, strides).layout::<f32>();
    assert_eq!(layout(&[2, 3], None).unwrap(), TensorLayout::contiguous(&[2, 3]).unwrap());
    assert_eq!(layout(&[2, 3], Some(&[4, 8])).unwrap(), TensorLayout::column_major(&[2, 3]).unwrap());
    assert!(layout(&[1, 3], Some(&[-5, 4])).unwrap().is_contiguous());
    assert_eq!(layout(&[], None).unwrap().len(), 1);
    assert_eq!(layout(&[0], None).unwrap().span(), 0);
    assert!(matches!(layout(&[3], Some(&[6])), Err(ExchangeError::PartialStride { stride: 6, element_bytes: 4, .. })));
    assert!(matches!(layout(&[3], Some(&[-4])), Err(ExchangeError::NegativeStride { .. })));
    assert!(matches!(layout(&[3, 3], Some(&[4])), Err(ExchangeError::StrideCount { shape: 2, strides: 1 })));
    let masked = CudaArrayInterface { mask: true, ..array(&[1], None) };
    assert!(matches!(masked.layout::<f32>(), Err(ExchangeError::Mask)));
    let later = CudaArrayInterface { version: 4, ..array(&[1], None) };
    assert!(matches!(later.layout::<f32>(), Err(ExchangeError::InterfaceVersion { version: 4 })));
    for (text, found) in [
        ("|b1", Some(bool::DATA_TYPE)),
        ("<c8", Some(Complex32::DATA_TYPE)),
        ("<f2", Some(half::f16::DATA_TYPE)),
        ("|u1", Some(u8::DATA_TYPE)),
        ("<i8", Some(i64::DATA_TYPE)),
        (">f4", None),
        ("<V2", None),
        ("", None),
        ("<f+4", None),
        ("<fé", None),
    ] {
        assert_eq!(DataType::from_type_string(text), found, "{text}");
        if let Some(found) = found {
            assert_eq!(found.type_string().unwrap(), text);
        }
    }
    assert!(matches!(half::bf16::DATA_TYPE.type_string(), Err(ExchangeError::NoTypeString { .. })));
}

#[test]
fn case_k2_the_executor_says_that_it_has_no_gpu() {
    let stream = cpu();
    let keeper = Arc::new(());
    // SAFETY: refused.
    let refused = unsafe { array(&[2], None).into_tensor::<f32, _>(&stream, Arc::clone(&keeper)) }.unwrap_err();
    assert!(matches!(exchange_error(refused), ExchangeError::NeedsGpu { .. }));
    let own = Tensor::new(stream.to_device(&[1.0f32]).unwrap(), TensorLayout::contiguous(&[1]).unwrap()).unwrap();
    assert!(own.cuda_array_interface(ExchangeStream::UNORDERED).is_err());
    assert_eq!(Arc::strong_count(&keeper), 1);
}

#[test]
fn case_k2_a_gpus_array_with_and_without_strides_and_stream() {
    for device in kernel_devices().into_iter().filter(Device::is_gpu) {
        let (own, other) = (device.stream().unwrap(), device.stream().unwrap());
        for number in [None, Some(1), Some(2), own.exchange_number()] {
            for layout in [TensorLayout::contiguous(&[2, 3]).unwrap(), TensorLayout::column_major(&[2, 3]).unwrap()] {
                let x = own.to_device(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
                let x = Tensor::new(x, layout).unwrap();
                // SAFETY: the handle is of a stream that lives longer.
                let stream = unsafe { ExchangeStream::from_array_interface(number) }.unwrap();
                if number.is_none() {
                    own.synchronize().unwrap();
                }
                let array = x.cuda_array_interface(stream).unwrap();
                assert_eq!(array.strides.is_some(), !x.layout().is_contiguous());
                let expected = x.to_host(&own).unwrap();
                // SAFETY: the tensor is kept, and not used meanwhile.
                let taken = unsafe { array.into_tensor::<f32, _>(&other, x) }.unwrap();
                assert_eq!(taken.to_host(&other).unwrap(), expected);
            }
        }
        let zero = CudaArrayInterface { stream: Some(0), ..array(&[0], None) };
        // SAFETY: refused.
        let refused = unsafe { zero.into_tensor::<f32, _>(&own, ()) }.unwrap_err();
        assert!(matches!(exchange_error(refused), ExchangeError::StreamNumber { value: 0 }));
        let host = [0.0f32; 4];
        let wild = CudaArrayInterface { data: (host.as_ptr().addr() as u64, false), ..array(&[4], None) };
        // SAFETY: refused.
        let refused = unsafe { wild.into_tensor::<f32, _>(&own, ()) }.unwrap_err();
        assert!(matches!(
            exchange_error(refused),
            ExchangeError::UnknownAddress { .. } | ExchangeError::OtherGpu { .. }
        ));
    }
}
