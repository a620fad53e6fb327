//! Loaded kernels: attributes, occupancy, prepared launches, launches that wait, and what a launch costs.

use warpsmith_device::abi::ArgumentSink;

use super::*;
use crate::allocations::counted;
use crate::kernel::{Kernel, OccupancyBound, SharedCarveout};
use crate::launch::{PreparedLaunch, check_launch};

fn load(device: &Device, desc: &'static KernelDesc) -> Kernel {
    Kernel::load(device, &instance(desc)).unwrap()
}

fn fire(stream: &Stream, plan: &PreparedLaunch, memory: &mut DeviceBuffer<u32>) -> Result<()> {
    let mut launch = Launch::new(stream, plan, &instance(&COUNT))?;
    let raw = launch.bind::<Param, _>(memory)?;
    launch.run(&|each| Param::arguments(&raw, each), &|_, _, _| unreachable!("the device is a GPU"))
}

simulated_test!(a_kernel_tells_what_its_code_takes, "", {
    let kernel = load(&device(), &COUNT);
    let attributes = kernel.attributes().unwrap();
    assert_eq!(
        (attributes.registers, attributes.shared_bytes, attributes.constant_bytes, attributes.local_bytes),
        (Some(128), 1024, Some(64), Some(40))
    );
    assert_eq!(attributes.max_threads_per_block, 512);
    let architecture = |number: u32| Some(crate::ComputeCapability { major: number / 10, minor: number % 10 });
    assert_eq!(attributes.ptx_architecture, architecture(80));
    assert_eq!(attributes.binary_architecture, architecture(90));
    // All of the device's 227 KiB beside the kernel's own, since it was loaded.
    assert_eq!(attributes.max_dynamic_shared_bytes, 226 << 10);
    assert_eq!(attributes.shared_carveout, Some(SharedCarveout::Default));
    assert_eq!(kernel.name(), "warpsmith::simulated::count");
});

simulated_test!(a_carveout_is_set_and_read_back, "", {
    let kernel = load(&device(), &COUNT);
    for carveout in [SharedCarveout::MaxShared, SharedCarveout::Percent(30), SharedCarveout::MaxCache] {
        kernel.set_shared_carveout(carveout).unwrap();
        assert_eq!(kernel.attributes().unwrap().shared_carveout, Some(carveout));
    }
    kernel.set_shared_carveout(SharedCarveout::Default).unwrap();
    assert_eq!(kernel.attributes().unwrap().shared_carveout, Some(SharedCarveout::Default));
    let (error, text) = message(kernel.set_shared_carveout(SharedCarveout::Percent(101)));
    assert!(matches!(error, Error::Launch(LaunchError::Carveout { percent: 101, .. })), "{text}");
    assert!(text.contains("101 percent"), "{text}");
});

simulated_test!(occupancy_is_the_drivers_with_what_bounds_it, "", {
    let kernel = load(&device(), &COUNT);
    let occupancy = kernel.occupancy(128, 0).unwrap();
    // 128 registers leave room for four blocks of four warps; the driver says three.
    assert_eq!((occupancy.blocks_per_multiprocessor, occupancy.warps_per_multiprocessor), (3, 12));
    assert_eq!((occupancy.max_warps_per_multiprocessor, occupancy.bound), (64, OccupancyBound::Registers));
    let occupancy = kernel.occupancy((16, 8), 200 << 10).unwrap();
    assert_eq!((occupancy.blocks_per_multiprocessor, occupancy.bound), (1, OccupancyBound::SharedMemory));
    let (error, text) = message(kernel.occupancy(1024, 0));
    assert!(matches!(error, Error::Launch(LaunchError::BlockTooLargeForKernel { limit: 512, .. })), "{text}");
    let (error, text) = message(kernel.occupancy(32, 227 << 10));
    assert!(matches!(error, Error::Launch(LaunchError::SharedMemory { .. })), "{text}");
    let config = LaunchConfig::new(8, 64).with_cluster(2);
    assert_eq!(kernel.max_active_clusters(&config).unwrap(), 6);
});

simulated_test!(a_block_size_is_the_drivers_within_the_kernels_bounds, "", {
    let kernel = load(&device(), &COUNT);
    let config = kernel.config_for_len(1000, 0).unwrap();
    assert_eq!((config.grid_dim(), config.block_dim()), (Dim3::new(3, 1, 1), Dim3::new(384, 1, 1)));
    assert_eq!(kernel.config_for_len(1000, 100).unwrap().shared_bytes(), 100);
    assert!(kernel.config_for_len(0, 0).unwrap().is_empty());
    assert_eq!(calls(c"block size with 0 bytes, at most 512"), 2);
    assert_eq!(calls(c"block size with 100 bytes, at most 512"), 1);
    let (error, text) = message(kernel.config_for_len(1, 1 << 20));
    assert!(matches!(error, Error::Launch(LaunchError::SharedMemory { .. })), "{text}");
});

simulated_test!(a_prepared_launch_is_fired_with_new_arguments, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let prepared = load(&device, &COUNT).prepare(LaunchConfig::for_len(100)).unwrap();
    let mut memories: Vec<_> = (0..3).map(|_| stream.zeroed::<u32>(100).unwrap()).collect();
    for round in 0..6 {
        fire(&stream, &prepared, &mut memories[round % 3]).unwrap();
    }
    for memory in &memories {
        assert_eq!(stream.to_host(memory).unwrap(), [2; 100]);
    }
    // Nothing to do is nothing started.
    let nothing = load(&device, &COUNT).prepare(LaunchConfig::for_len(0)).unwrap();
    fire(&stream, &nothing, &mut memories[0]).unwrap();
    assert_eq!(stream.to_host(&memories[0]).unwrap(), [2; 100]);
});

simulated_test!(a_shape_is_refused_when_it_is_prepared, "", {
    let kernel = load(&device(), &COUNT);
    let refused = |config: LaunchConfig| message(kernel.prepare(config)).1;
    let text = refused(LaunchConfig::new(1, 1025));
    assert!(text.contains("1025") && text.contains("1024"), "{text}");
    let text = refused(LaunchConfig::new((1, 65_536), 32));
    assert!(text.contains("65536") && text.contains("65535") && text.contains("grid_dim.y"), "{text}");
    let text = refused(LaunchConfig::new(1, 1024));
    assert!(text.contains("this kernel allows 512 (each thread uses 128 registers)"), "{text}");
    let text = refused(LaunchConfig::new(1, 32).with_shared_bytes(227 << 10));
    assert!(text.contains("232448"), "{text}");
});

simulated_test!(a_launch_prepared_for_something_else_is_refused, "gpus=2", {
    let device = device();
    let other = Device::gpu(1).unwrap();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(4).unwrap();
    let of_panic = load(&device, &PANIC).prepare(LaunchConfig::for_len(4)).unwrap();
    let (error, text) = message(fire(&stream, &of_panic, &mut memory));
    assert!(matches!(error, Error::Launch(LaunchError::PreparedForOtherKernel { .. })), "{text}");
    assert!(text.contains("`warpsmith::simulated::count`") && text.contains("`warpsmith::simulated::panic`"), "{text}");
    let of_other = load(&other, &COUNT).prepare(LaunchConfig::for_len(4)).unwrap();
    let (error, text) = message(fire(&stream, &of_other, &mut memory));
    assert!(matches!(error, Error::Launch(LaunchError::PreparedForOtherDevice { .. })), "{text}");
    assert_eq!(stream.to_host(&memory).unwrap(), [0; 4]);
});

simulated_test!(a_late_failure_is_the_launchs_own_where_launches_wait, "", {
    let device = device();
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(300).unwrap();
    device.set_launch_blocking(true);
    launch(&stream, &COUNT, &mut memory).unwrap();
    let (error, text) = message(launch(&stream, &PANIC, &mut memory));
    assert_eq!(error.kernel_panic().unwrap().kernel, "warpsmith::simulated::panic", "{text}");
    // It was reported, and the stream goes on.
    launch(&stream, &COUNT, &mut memory).unwrap();
    assert_eq!(stream.to_host(&memory).unwrap(), [2; 300]);
    let (error, text) = message(launch_with(&stream, &FAULT, LaunchConfig::new(7, 32), &mut memory));
    assert!(matches!(error, Error::Launch(LaunchError::Failed { .. })), "{text}");
    assert!(
        text.contains("kernel `warpsmith::simulated::fault` failed while it ran") && text.contains("x: 7"),
        "{text}"
    );
    assert!(text.contains("cuStreamSynchronize") && text.contains("ILLEGAL_ADDRESS"), "{text}");
});

simulated_test!(without_waiting_a_late_failure_comes_from_the_next_synchronise, "", {
    let device = device();
    assert!(!device.is_launch_blocking());
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(3).unwrap();
    launch(&stream, &FAULT, &mut memory).unwrap();
    let (error, text) = message(stream.synchronize());
    assert!(matches!(error, Error::Stream(StreamError::Failed { .. })), "{text}");
    assert!(text.contains("`warpsmith::simulated::fault`"), "{text}");
});

simulated_test!(what_is_taken_for_a_usual_shape_passes_every_check, "", {
    let device = device();
    let kernels = [&COUNT, &FAULT].map(|desc| Kernel::loaded(&device, instance(desc).identity(), true).unwrap());
    let seed = 0x5ba9_u64;
    println!("seed {seed:#x}");
    let mut random = seed;
    let mut one_of = |values: &[u32]| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        values[usize::try_from(random >> 33).unwrap() % values.len()]
    };
    let mut usual = 0;
    for _ in 0..100_000 {
        let grid = (one_of(&[0, 1, 2, i32::MAX as u32, 1 << 31, u32::MAX]), one_of(&[0, 1, 1, 2]), one_of(&[1, 1, 2]));
        let block =
            (one_of(&[0, 1, 32, 511, 512, 513, 1024, 1025, u32::MAX]), one_of(&[0, 1, 1, 2]), one_of(&[1, 1, 2]));
        let shared = one_of(&[0, 0, 1, 231_424, 231_425, 232_448, u32::MAX]);
        let cluster = (one_of(&[0, 1, 1, 1, 2, u32::MAX]), one_of(&[1, 1, 1, 1, 2]), one_of(&[1, 1, 1, 1, 2]));
        let mut config = LaunchConfig::new(grid, block).with_shared_bytes(shared).with_cluster(cluster);
        if one_of(&[0, 0, 0, 1]) == 1 {
            config = config.cooperative();
        }
        for kernel in &kernels {
            let is_usual = kernel.gpu().unwrap().usual.contain(&config);
            let checked = check_launch(&config, kernel, &device);
            assert!(!is_usual || checked.is_ok(), "{config:?}: {checked:?}");
            let is_simple = config.is_along_x() && cluster == (1, 1, 1) && !config.is_cooperative();
            assert!(is_usual || !is_simple || checked.is_err(), "{config:?} is slow without a reason");
            usual += usize::from(is_usual);
        }
    }
    assert!(usual > 500, "{usual}");
});

simulated_test!(a_launch_allocates_nothing, "", {
    let device = device();
    let streams = [device.stream().unwrap(), device.stream().unwrap()];
    let mut memory = streams[0].zeroed::<u32>(100).unwrap();
    let config = LaunchConfig::for_len(100);
    let prepared = load(&device, &COUNT).prepare(config).unwrap();
    let many = |memory: &mut DeviceBuffer<u32>| {
        // As many addresses as sixteen slices have; the kernel looks at the first two.
        let mut launch = Launch::new(&streams[0], &prepared, &instance(&COUNT)).unwrap();
        let raw = launch.bind::<Param, _>(memory).unwrap();
        let list = |sink: &mut ArgumentSink<'_>| (0..16).for_each(|_| Param::arguments(&raw, sink));
        launch.run(&list, &|_, _, _| unreachable!("the device is a GPU")).unwrap();
    };
    let mut round = |times: usize| {
        for at in 0..times {
            launch_with(&streams[at % 2], &COUNT, config, &mut memory).unwrap();
            fire(&streams[0], &prepared, &mut memory).unwrap();
            many(&mut memory);
        }
    };
    // The first uses make the streams' events and room for the list of uses.
    round(2);
    assert_eq!(counted(|| round(1000)), 0);
    assert_eq!(streams[0].to_host(&memory).unwrap(), [3006; 100]);
});

simulated_test!(the_environment_has_launches_wait_for_their_end, "WARPSMITH_LAUNCH_BLOCKING=1|", {
    let device = device();
    assert!(device.is_launch_blocking());
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    launch(&stream, &super::COUNT, &mut memory).unwrap();
    let (error, text) = message(launch(&stream, &FAULT, &mut memory));
    assert!(matches!(error, Error::Launch(LaunchError::Failed { .. })), "{text}");
});

simulated_test!(the_environment_has_launches_not_wait, "WARPSMITH_LAUNCH_BLOCKING=0|", {
    let device = device();
    assert!(!device.is_launch_blocking());
    let stream = device.stream().unwrap();
    let mut memory = stream.zeroed::<u32>(10).unwrap();
    launch(&stream, &FAULT, &mut memory).unwrap();
    assert!(stream.synchronize().is_err());
});

simulated_test!(an_environment_that_says_neither_wait_nor_not_is_named, "WARPSMITH_LAUNCH_BLOCKING=maybe|", {
    let (error, text) = message(device().stream());
    assert!(
        matches!(&error, Error::Device(DeviceError::UnknownLaunchBlocking { value }) if value == "maybe"),
        "{text}"
    );
    assert!(error.to_string().contains("WARPSMITH_LAUNCH_BLOCKING is \"maybe\"; it can be 1"), "{error}");
    assert!(Device::cpu_scheduled(crate::Schedule::Reversed).stream().is_err(), "on the executor too");
});
