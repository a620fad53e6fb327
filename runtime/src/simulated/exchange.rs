//! Memory of other libraries on a GPU: when it is given back, and in which order.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::exchange::{CudaArrayInterface, ExchangeError, ExchangeStream, Form, Tensor, TensorLayout};

/// Device memory that another library allocated: ten zeros.
fn foreign_memory(device: &Device) -> u64 {
    device.as_cudarc().unwrap().bind_to_thread().unwrap();
    let mut address = 0;
    // SAFETY: it writes the address of memory of the simulated driver.
    let answer =
        unsafe { control::<unsafe extern "C" fn(*mut u64, usize) -> u32>(c"cuMemAlloc_v2")(&raw mut address, 40) };
    assert_eq!(answer, 0);
    // SAFETY: the simulated driver's device memory is memory of the host with these bytes, which nobody else knows.
    unsafe { pointer(address).cast::<[u32; 10]>().write([0; 10]) };
    address
}

fn pointer(address: u64) -> *mut u32 {
    std::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap())
}

/// The first element as it is now, with work that waits in queues not done.
fn now(address: u64) -> u32 {
    // SAFETY: as in `foreign_memory`; the simulated driver works on the calling thread only.
    unsafe { pointer(address).read_volatile() }
}

/// Notes what the memory held when it was given back.
struct Owner {
    address: u64,
    seen: Arc<AtomicU32>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        assert_eq!(self.seen.swap(now(self.address), Ordering::Relaxed), u32::MAX, "given back once");
    }
}

fn owner(address: u64) -> (Owner, Arc<AtomicU32>) {
    let seen = Arc::new(AtomicU32::new(u32::MAX));
    (Owner { address, seen: Arc::clone(&seen) }, seen)
}

/// A stream of ours as another library's.
fn theirs(stream: &Stream) -> ExchangeStream {
    // SAFETY: the tests keep the stream.
    unsafe { ExchangeStream::from_dlpack(stream.device(), stream.exchange_number()) }.unwrap()
}

simulated_test!(foreign_memory_goes_back_after_the_work_that_uses_it, "", {
    let device = device();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let address = foreign_memory(&device);
    let bytes = allocated();
    let (keeper, seen) = owner(address);
    // SAFETY: the memory has ten numbers and is used by nobody else.
    let mut memory = unsafe { DeviceBuffer::from_raw_parts(&a, pointer(address), 10, keeper) }.unwrap();
    launch(&a, &COUNT, &mut memory).unwrap();
    launch(&b, &COUNT, &mut memory).unwrap();
    assert_eq!((now(address), seen.load(Ordering::Relaxed)), (0, u32::MAX), "nothing waits for the kernels yet");
    drop(memory);
    assert_eq!(seen.load(Ordering::Relaxed), 2, "both kernels are done when the memory goes back");
    device.synchronize().unwrap();
    assert_eq!(allocated(), bytes, "its owner frees it, and nobody else");
});

simulated_test!(foreign_memory_goes_back_in_order_without_a_wait, "", {
    let device = device();
    let (home, other) = (device.stream().unwrap(), device.stream().unwrap());
    let address = foreign_memory(&device);
    let (keeper, seen) = owner(address);
    // SAFETY: the memory has ten numbers and is used by nobody else.
    let mut memory = unsafe { DeviceBuffer::from_raw_parts(&home, pointer(address), 10, keeper) }.unwrap();
    launch(&other, &COUNT, &mut memory).unwrap();
    // SAFETY: it is used again below, in order of `home`.
    assert!(unsafe { memory.release_in_order(&home) });
    drop(memory);
    assert_eq!(seen.load(Ordering::Relaxed), 0, "the host did not wait for the kernel");
    home.synchronize().unwrap();
    assert_eq!(now(address), 1, "`home` comes after the other stream's kernel");
    let mut own = home.zeroed::<u32>(1).unwrap();
    // SAFETY: it says false.
    assert!(!unsafe { own.release_in_order(&home) });
    launch(&home, &COUNT, &mut own).unwrap();
    assert_eq!(home.to_host(&own).unwrap(), [1]);
});

simulated_test!(case_k1_the_consumers_stream_waits_for_all_uses, "", {
    let device = device();
    let (a, b, consumer) = (device.stream().unwrap(), device.stream().unwrap(), device.stream().unwrap());
    // SAFETY: no number here but the handle of `consumer` is one.
    let number = |value| unsafe { ExchangeStream::from_dlpack(&device, value) }.unwrap();
    for (theirs, waits) in [
        (number(consumer.exchange_number()), 2),
        (number(Some(1)), 2),
        (number(Some(2)), 2),
        (number(None), 2),
        (number(Some(-1)), 0),
    ] {
        let mut memory = a.zeroed::<u32>(10).unwrap();
        launch(&a, &COUNT, &mut memory).unwrap();
        let before = calls(c"wait");
        launch(&b, &COUNT, &mut memory).unwrap();
        assert_eq!(calls(c"wait"), before + 1);
        // A shared use, so that both streams are remembered.
        let mut copy = a.zeroed::<u32>(10).unwrap();
        copy.copy_from_device(&a, &memory).unwrap();
        let address = memory.cuda_address().unwrap();
        let before = calls(c"wait");
        let tensor = Tensor::new(memory, TensorLayout::contiguous(&[10]).unwrap()).unwrap();
        let given = tensor.into_dlpack(theirs, Form::Legacy).unwrap();
        assert_eq!(calls(c"wait") - before, waits, "{theirs:?}");
        if let Some(number) = theirs.number() {
            // SAFETY: the handle is the consumer's own, or a default stream's.
            unsafe { control::<unsafe extern "C" fn(usize) -> u32>(c"cuStreamSynchronize")(number as usize) };
            assert_eq!(now(address), 2, "{theirs:?}");
        }
        drop(given);
    }
    drop((a, b, consumer));
    device.synchronize().unwrap();
    assert_eq!(allocated(), 0, "the deleter frees the memory");
});

simulated_test!(the_deleter_waits_for_the_consumers_work, "", {
    let device = device();
    let (ours, consumer) = (device.stream().unwrap(), device.stream().unwrap());
    let memory = ours.zeroed::<u32>(10).unwrap();
    let address = memory.cuda_address().unwrap();
    let tensor = Tensor::new(memory, TensorLayout::contiguous(&[10]).unwrap()).unwrap();
    let given = tensor.into_dlpack(theirs(&consumer), Form::Versioned).unwrap();
    // The consumer works behind this crate's back, and lets go while that is under way.
    let mut copy = consumer.zeroed::<u32>(10).unwrap();
    // SAFETY: the tensor was given to this consumer; the buffer does not outlive it.
    let mut at_consumer = unsafe { DeviceBuffer::from_raw_parts(&consumer, pointer(address), 10, ()) }.unwrap();
    launch(&consumer, &COUNT, &mut at_consumer).unwrap();
    copy.copy_from_device(&consumer, &at_consumer).unwrap();
    std::mem::forget(at_consumer);
    drop(given);
    assert_eq!(consumer.to_host(&copy).unwrap(), [1; 10]);
    drop(copy);
    device.synchronize().unwrap();
    assert_eq!((calls(c"illegal address"), allocated()), (0, 0));
});

simulated_test!(case_k2_an_arrays_own_stream_comes_first, "", {
    let device = device();
    let (producer, ours) = (device.stream().unwrap(), device.stream().unwrap());
    let address = foreign_memory(&device);
    // SAFETY: the memory has ten numbers.
    let mut at_producer = unsafe { DeviceBuffer::from_raw_parts(&producer, pointer(address), 10, ()) }.unwrap();
    launch(&producer, &COUNT, &mut at_producer).unwrap();
    std::mem::forget(at_producer);
    let array = |data: u64, shape: &[i64], stream| CudaArrayInterface {
        shape: shape.to_vec(),
        typestr: "<u4".to_owned(),
        data: (data, false),
        strides: None,
        mask: false,
        version: 3,
        stream,
    };
    // SAFETY: the entries are true, or refused.
    let taken = |array: CudaArrayInterface| unsafe { array.into_tensor::<u32, _>(&ours, ()) };
    let refused = |array| message(taken(array).map_err(Error::from)).1;
    let unordered = taken(array(address, &[10], None)).unwrap();
    assert_eq!(unordered.to_host(&ours).unwrap(), [0; 10], "nothing waits without a stream");
    let ordered = taken(array(address, &[2, 5], producer.exchange_number())).unwrap();
    assert_eq!(ordered.to_host(&ours).unwrap(), [1; 10]);
    // And back: the array is ready in order of the stream that it names.
    let given = ordered.cuda_array_interface(theirs(&producer)).unwrap();
    assert_eq!(given, array(address, &[2, 5], producer.exchange_number()));
    assert_eq!(taken(array(0, &[0, 3], None)).unwrap().cuda_array_interface(theirs(&ours)).unwrap().data, (0, false));

    assert!(refused(array(address, &[10], Some(0))).contains("a stream cannot be 0"));
    assert!(refused(array(0, &[10], None)).contains("the address is null, and there are 10 elements"));
    assert!(refused(array(address + 2, &[1], None)).contains("is not a multiple of 4"));
    let text = refused(array(1 << 40, &[1], None));
    assert!(text.contains("0x10000000000 is no memory of GPU 0") && !text.contains("CUDA_ERROR"), "{text}");
});

simulated_test!(another_gpus_memory_is_refused, "gpus=2", {
    let device = device();
    let other = Device::gpu(1).unwrap();
    let address = foreign_memory(&other);
    let stream = device.stream().unwrap();
    // SAFETY: refused.
    let refused = unsafe { DeviceBuffer::from_raw_parts(&stream, pointer(address), 10, 7) }.unwrap_err();
    assert_eq!(refused.value, 7);
    let text = refused.to_string();
    assert!(matches!(refused.error, Error::Exchange(ExchangeError::OtherGpu { found: 1, .. })), "{text}");
    assert!(text.contains("is memory of GPU 1, not of GPU 0"), "{text}");
    // A tensor that says so itself, of one GPU given to the other.
    let layout = TensorLayout::contiguous(&[3]).unwrap();
    let tensor = Tensor::new(other.stream().unwrap().to_device(&[1u32, 2, 3]).unwrap(), layout).unwrap();
    let given = tensor.into_dlpack(ExchangeStream::UNORDERED, Form::Versioned).unwrap();
    // SAFETY: refused.
    let refused = unsafe { given.into_tensor::<u32>(&stream) }.unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("the tensor lives in memory of GPU 1, which GPU 0"), "{text}");
    other.synchronize().unwrap();
    // SAFETY: the tensor is nobody else's, and its GPU has no work left.
    let taken = unsafe { refused.value.into_tensor::<u32>(&other.stream().unwrap()) }.unwrap();
    assert_eq!(taken.to_host(&other.stream().unwrap()).unwrap(), [1, 2, 3]);
    // And memory of the host on a GPU.
    let host = Tensor::new(
        Device::cpu().stream().unwrap().to_device(&[1u32]).unwrap(),
        TensorLayout::contiguous(&[1]).unwrap(),
    );
    let given = host.unwrap().into_dlpack(ExchangeStream::UNORDERED, Form::Versioned).unwrap();
    // SAFETY: refused.
    let text = unsafe { given.into_tensor::<u32>(&stream) }.unwrap_err().to_string();
    assert!(text.contains("lives in memory of the host, which GPU 0") && text.contains("move it to the GPU"), "{text}");
});

simulated_test!(work_on_another_librarys_stream, "", {
    let device = device();
    let library = device.stream().unwrap();
    let same = theirs(&library);
    // SAFETY: the stream is kept.
    let ours = unsafe { Stream::from_exchange(&device, same) }.unwrap();
    let mut memory = ours.zeroed::<u32>(10).unwrap();
    launch(&ours, &COUNT, &mut memory).unwrap();
    assert_eq!(ours.exchange_number(), library.exchange_number());
    library.synchronize().unwrap();
    assert_eq!(now(memory.cuda_address().unwrap()), 1, "the work is in the library's own queue");
    // SAFETY: refused.
    let refused = unsafe { Stream::from_exchange(&device, ExchangeStream::UNORDERED) };
    assert!(message(refused).1.contains("needs a GPU"));
    // Each side waits for the other.
    let other = device.stream().unwrap();
    launch(&ours, &COUNT, &mut memory).unwrap();
    other.wait_for_exchange(same).unwrap();
    other.synchronize().unwrap();
    assert_eq!(now(memory.cuda_address().unwrap()), 2);
    launch(&ours, &COUNT, &mut memory).unwrap();
    ours.exchange_waits(theirs(&other)).unwrap();
    other.synchronize().unwrap();
    assert_eq!(now(memory.cuda_address().unwrap()), 3);
});
