//! Memory of cudarc on a GPU: who waits for whom when it comes and goes, and who frees it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ::cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};

use super::*;
use crate::exchange::ExchangeError;

/// Another library's wrapper of the first GPU's primary context, with two streams.
fn their_streams() -> [Arc<CudaStream>; 2] {
    let context = CudaContext::new(0).unwrap();
    [context.new_stream().unwrap(), context.new_stream().unwrap()]
}

fn pointer(address: u64) -> *const u32 {
    std::ptr::with_exposed_provenance(usize::try_from(address).unwrap())
}

/// What cudarc finds in a slice when it copies it on a stream of its own.
fn read_on(stream: &Arc<CudaStream>, slice: &CudaSlice<u32>) -> Vec<u32> {
    let mut copy = stream.alloc_zeros::<u32>(slice.len()).unwrap();
    stream.memcpy_dtod(slice, &mut copy).unwrap();
    stream.synchronize().unwrap();
    let address = copy.device_ptr(stream).0;
    // SAFETY: the simulated driver's memory is the host's, and has these elements; the copy is done.
    (0..copy.len()).map(|at| unsafe { pointer(address).add(at).read_volatile() }).collect()
}

fn address_of(slice: &CudaSlice<u32>) -> u64 {
    slice.device_ptr(slice.stream()).0
}

simulated_test!(a_slice_of_cudarc_becomes_a_buffer_and_comes_back_in_order, "", {
    let device = device();
    let theirs = their_streams();
    let ours = [device.stream().unwrap(), device.stream().unwrap(), Stream::from_cudarc(&theirs[0]).unwrap()];
    for (first, second, last, home) in [(0, 1, 0, 0), (0, 1, 1, 1), (2, 2, 2, 0), (0, 2, 2, 1), (1, 0, 2, 1)] {
        let bytes = allocated();
        let mut slice = theirs[home].alloc_zeros::<u32>(10).unwrap();
        let given = theirs[1 - home].clone_htod(&[5u32; 10]).unwrap();
        // The last write is on the stream that is not the slice's own.
        theirs[1 - home].memcpy_dtod(&given, &mut slice).unwrap();
        let address = address_of(&slice);
        let mut buffer = DeviceBuffer::from_cudarc(&ours[first], slice).unwrap();
        assert_eq!((buffer.len(), buffer.cuda_address()), (10, Some(address)));
        launch(&ours[first], &COUNT, &mut buffer).unwrap();
        launch(&ours[second], &COUNT, &mut buffer).unwrap();
        // SAFETY: the simulated driver's memory is the host's.
        assert_ne!(unsafe { pointer(address).read_volatile() }, 7, "nothing was waited for on the host");
        let slice = buffer.into_cudarc(&ours[last]).unwrap();
        assert_eq!(address_of(&slice), address);
        assert_eq!(slice.stream(), &theirs[home]);
        assert_eq!(read_on(&theirs[1 - home], &slice), [7; 10], "{first} {second} {last} {home}");
        drop((slice, given));
        theirs.iter().for_each(|stream| stream.synchronize().unwrap());
        assert_eq!(allocated(), bytes, "cudarc has freed its memory");
    }
    device.synchronize().unwrap();
});

simulated_test!(a_buffer_of_cudarcs_memory_that_is_dropped_is_freed_after_its_last_use, "", {
    let device = device();
    let theirs = their_streams();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let bytes = allocated();
    let slice = theirs[0].alloc_zeros::<u32>(10).unwrap();
    let mut buffer = DeviceBuffer::from_cudarc(&a, slice).unwrap();
    launch(&a, &COUNT, &mut buffer).unwrap();
    launch(&b, &COUNT, &mut buffer).unwrap();
    drop(buffer);
    assert_eq!(allocated(), bytes + 40, "the host did not wait");
    // Were it freed before the kernels had run, they would find memory that is not there.
    theirs[0].synchronize().unwrap();
    assert_eq!(allocated(), bytes);
    a.synchronize().unwrap();
    b.synchronize().unwrap();
    device.synchronize().unwrap();
});

simulated_test!(memory_of_cudarc_is_lent_and_its_later_uses_wait, "", {
    let device = device();
    let theirs = their_streams();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let on_theirs = Stream::from_cudarc(&theirs[0]).unwrap();
    for (scope_on, other, panics) in
        [(&a, &b, false), (&a, &on_theirs, false), (&on_theirs, &on_theirs, false), (&a, &b, true)]
    {
        let x = theirs[1].clone_htod(&[3u32; 10]).unwrap();
        let mut y = theirs[0].alloc_zeros::<u32>(12).unwrap();
        let run = || {
            scope_on.cudarc_scope(|scope| {
                let (x, mut y) = (scope.read(x.as_view())?, scope.write(y.slice_mut(1..11))?);
                assert_eq!((x.len(), y.len()), (10, 10));
                y.copy_from_device(scope.stream(), x)?;
                let mut own = other.zeroed::<u32>(10)?;
                own.copy_from_device(other, y.as_slice())?;
                launch(other, &COUNT, &mut own)?;
                y.copy_from_device(other, &own)?;
                assert!(!panics, "a test's own panic");
                Ok(own)
            })
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(own) => assert_eq!(other.to_host(&own.unwrap()).unwrap(), [4; 10]),
            Err(_) => assert!(panics),
        }
        // The stream that is not the slice's own knows of the write by cudarc's event alone.
        assert_eq!(read_on(&theirs[1], &y), [0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 0]);
        // cudarc writes what was read, and frees both.
        let mut x = x;
        theirs[0].memset_zeros(&mut x).unwrap();
        drop((x, y));
        theirs.iter().for_each(|stream| stream.synchronize().unwrap());
    }
    device.synchronize().unwrap();
});

simulated_test!(cudarc_writes_after_a_lent_read, "", {
    let device = device();
    let theirs = their_streams();
    let ours = device.stream().unwrap();
    let mut x = theirs[0].clone_htod(&[3u32; 10]).unwrap();
    let copy = ours
        .cudarc_scope(|scope| {
            let mut copy = ours.zeroed::<u32>(10)?;
            copy.copy_from_device(&ours, scope.read(x.as_view())?)?;
            Ok(copy)
        })
        .unwrap();
    theirs[1].memset_zeros(&mut x).unwrap();
    // The later work first: what nothing orders is done now.
    theirs[1].synchronize().unwrap();
    assert_eq!(ours.to_host(&copy).unwrap(), [3; 10]);
});

simulated_test!(a_buffer_becomes_a_slice_of_cudarc, "", {
    let device = device();
    let (a, b) = (device.stream().unwrap(), device.stream().unwrap());
    let bytes = allocated();
    device.memory_pool().set_limit(Some(40));
    let mut buffer = a.zeroed::<u32>(10).unwrap();
    let address = buffer.cuda_address().unwrap();
    launch(&a, &COUNT, &mut buffer).unwrap();
    let slice = buffer.into_cudarc(&b).unwrap();
    assert_eq!((address_of(&slice), slice.len(), slice.stream()), (address, 10, b.as_cudarc().unwrap()));
    drop(a.zeroed::<u32>(10).expect("what was given away does not count as this crate's"));
    assert_eq!(read_on(&a.as_cudarc().unwrap().context().new_stream().unwrap(), &slice), [1; 10]);
    // And back.
    let mut buffer = DeviceBuffer::from_cudarc(&a, slice).unwrap();
    launch(&a, &COUNT, &mut buffer).unwrap();
    assert_eq!(a.to_host(&buffer).unwrap(), [2; 10]);
    drop(buffer.into_cudarc(&a).unwrap());
    a.synchronize().unwrap();
    b.synchronize().unwrap();
    device.synchronize().unwrap();
    assert_eq!(allocated(), bytes, "freed once");
});

simulated_test!(what_cannot_be_taken_from_or_given_to_cudarc_comes_back, "gpus=2", {
    let device = device();
    let theirs = their_streams();
    let stream = device.stream().unwrap();
    let slice = theirs[0].clone_htod(&[1u32; 10]).unwrap();
    let refused = DeviceBuffer::from_cudarc(&Device::cpu().stream().unwrap(), slice).unwrap_err();
    assert!(matches!(refused.error, Error::Exchange(ExchangeError::NeedsGpu { .. })), "{}", refused.error);
    let second = Device::gpu(1).unwrap().stream().unwrap();
    let refused = DeviceBuffer::from_cudarc(&second, refused.value).unwrap_err();
    assert!(
        matches!(refused.error, Error::Exchange(ExchangeError::OtherContext { found: 0, .. })),
        "{}",
        refused.error
    );
    let lent = second.cudarc_scope(|scope| scope.read(refused.value.as_view()).map(drop));
    assert!(matches!(lent, Err(Error::Exchange(ExchangeError::OtherContext { .. }))));
    // The memory of each thread's own stream.
    let each_threads = theirs[0].context().per_thread_stream().alloc_zeros::<u32>(10).unwrap();
    let each_threads = DeviceBuffer::from_cudarc(&stream, each_threads).unwrap_err();
    assert!(matches!(each_threads.error, Error::Stream(StreamError::PerThreadStream)), "{}", each_threads.error);
    // Nothing was consumed.
    let buffer = DeviceBuffer::from_cudarc(&stream, refused.value).unwrap();
    let refused = buffer.into_cudarc(&second).unwrap_err();
    assert!(matches!(refused.error, Error::Memory(MemoryError::OtherDevice { .. })), "{}", refused.error);
    assert_eq!(read_on(&theirs[1], &refused.value.into_cudarc(&stream).unwrap()), [1; 10]);
    let empty = stream.zeroed::<u32>(0).unwrap().into_cudarc(&stream).unwrap_err();
    assert!(matches!(empty.error, Error::Exchange(ExchangeError::NotForCudarc { .. })), "{}", empty.error);
    let mut shared = stream.zeroed::<u32>(10).unwrap();
    let graph = stream.capture(|recording| shared.fill(recording, 1)).unwrap();
    let refused = shared.into_cudarc(&stream).unwrap_err();
    assert!(matches!(refused.error, Error::Exchange(ExchangeError::InGraph)), "{}", refused.error);
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.to_host(&refused.value).unwrap(), [1; 10]);
    let on_cpu = Device::cpu().stream().unwrap();
    let refused = on_cpu.zeroed::<u32>(1).unwrap().into_cudarc(&on_cpu).unwrap_err();
    assert!(matches!(refused.error, Error::Exchange(ExchangeError::NeedsGpu { .. })), "{}", refused.error);
    stream.synchronize().unwrap();
    device.synchronize().unwrap();
});

simulated_test!(without_pools_a_buffer_does_not_become_a_slice, "pools=0", {
    let device = device();
    let stream = device.stream().unwrap();
    let refused = stream.zeroed::<u32>(10).unwrap().into_cudarc(&stream).unwrap_err();
    assert!(matches!(refused.error, Error::Exchange(ExchangeError::NotForCudarc { .. })), "{}", refused.error);
    // cudarc's own slices come and go all the same.
    let theirs = their_streams();
    let mut buffer = DeviceBuffer::from_cudarc(&stream, theirs[0].alloc_zeros::<u32>(10).unwrap()).unwrap();
    launch(&stream, &COUNT, &mut buffer).unwrap();
    assert_eq!(read_on(&theirs[1], &buffer.into_cudarc(&stream).unwrap()), [1; 10]);
});
