//! Launch shapes and ownership maps: each element is written by its own thread, once, and nothing else is.

use warpsmith::prelude::*;
use warpsmith_tests::{check_on_devices, devices};

/// Each thread's number into its own element.
#[kernel]
fn own_number(mut output: GridSliceMut<u64>) {
    let i = global_idx();
    if let Some(output) = output.get_mut(&i) {
        *output = *output * 1_000_000 + i.get() as u64 + 1;
    }
}

#[test]
fn case_a4_sizes_around_every_boundary() {
    for len in [0, 1, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 1536, 34_567, 1_048_576, 1_049_600] {
        let expected: Vec<u64> = (1..=len as u64).collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<u64>(len)?;
            own_number::launch(stream, LaunchConfig::for_len(len), &mut output)?;
            stream.to_host(&output)
        });
    }
}

#[test]
fn the_global_index_counts_over_all_dimensions() {
    type Shape = (u32, u32, u32);
    let shapes: [(Shape, Shape); 4] =
        [((3, 1, 1), (7, 1, 1)), ((2, 3, 1), (5, 4, 1)), ((2, 3, 4), (3, 2, 5)), ((1, 1, 9), (1, 8, 2))];
    for (grid, block) in shapes {
        let threads = Dim3::from(grid).count() * Dim3::from(block).count();
        // Seven elements that no thread owns stay as they are.
        let expected: Vec<u64> = (1..=threads).chain([0; 7]).collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<u64>(expected.len())?;
            own_number::launch(stream, LaunchConfig::new(grid, block), &mut output)?;
            stream.to_host(&output)
        });
    }
}

/// Grid-stride over more elements than there are threads.
#[kernel]
fn strided(input: &[u32], mut output: GridSliceMut<u32>) {
    for i in grid_stride(input.len()) {
        if let Some(output) = output.get_mut(&i) {
            *output += input[i.get()] * 3 + 1;
        }
    }
}

#[test]
fn grid_strides_cover_everything_once() {
    for len in [0, 1, 95, 96, 97, 1000] {
        let input: Vec<u32> = (0..len).collect();
        let expected: Vec<u32> = input.iter().map(|v| v * 3 + 1).collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<u32>(input.len())?;
            strided::launch(stream, LaunchConfig::new(3, 32), &stream.to_device(&input)?, &mut output)?;
            stream.to_host(&output)
        });
    }
}

/// Runs of five elements: whole, and the last one cut.
#[kernel]
fn runs(mut output: GridSliceMut<u32, Runs<5>>) {
    let run = run_idx::<5>();
    for (offset, element) in output.run_mut(&run).iter_mut().enumerate() {
        *element = (run.start() * 10 + offset) as u32;
    }
    if let Some(last) = output.get_mut(&run.nth(4)) {
        *last += 1_000_000;
    }
}

#[test]
fn runs_belong_to_one_thread_each() {
    for len in [0usize, 1, 4, 5, 6, 160, 161, 164, 165] {
        let expected: Vec<u32> = (0..len)
            .map(|i| if i >= 33 * 5 { 0 } else { (i / 5 * 50 + i % 5) as u32 + if i % 5 == 4 { 1_000_000 } else { 0 } })
            .collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<u32>(len)?;
            runs::launch(stream, LaunchConfig::new(3, 11), &mut output)?;
            stream.to_host(&output)
        });
    }
}

/// The place of each thread of a plane.
#[kernel]
fn places(mut output: GridSliceMut<u64, Plane>) {
    let place = global_idx_2d();
    if let Some(output) = output.get_mut(&place) {
        *output += ((place.y() as u64) << 32) + place.x() as u64 + 1;
    }
}

#[test]
fn planes_with_and_without_a_stride() {
    for (width, height, stride) in [(1usize, 1usize, 1usize), (7, 5, 7), (7, 5, 9), (33, 2, 40), (2, 33, 2)] {
        let len = stride * height + 3;
        let expected: Vec<u64> = (0..len)
            .map(|i| {
                let (x, y) = (i % stride, i / stride);
                if x < width && y < height { ((y as u64) << 32) + x as u64 + 1 } else { 0 }
            })
            .collect();
        check_on_devices(&expected, |stream| {
            let mut output = stream.zeroed::<u64>(len)?;
            let grid = (width.div_ceil(8) as u32, height.div_ceil(4) as u32);
            let plane = output.plane_mut_with_stride(width, height, stride)?;
            places::launch(stream, LaunchConfig::new(grid, (8, 4)), plane)?;
            stream.to_host(&output)
        });
    }
}

#[test]
fn a_plane_under_a_grid_with_layers_has_each_element_once() {
    let (width, height) = (6usize, 24usize);
    let expected: Vec<u64> =
        (0..width * height).map(|i| (((i / width) as u64) << 32) + (i % width) as u64 + 1).collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<u64>(width * height)?;
        places::launch(stream, LaunchConfig::new((2, 2, 3), (3, 2, 2)), output.plane_mut(width, height)?)?;
        stream.to_host(&output)
    });
}

/// The place of each thread of a volume.
#[kernel]
fn volume(mut output: GridSliceMut<[u16; 3], Volume>) {
    let place = global_idx_3d();
    if let Some(output) = output.get_mut(&place) {
        *output = [place.x() as u16 + 1, place.y() as u16, place.z() as u16];
    }
}

#[test]
fn volumes() {
    let (width, height, depth) = (5usize, 4usize, 7usize);
    let expected: Vec<[u16; 3]> = (0..width * height * depth)
        .map(|i| [i % width + 1, i / width % height, i / width / height].map(|v| v as u16))
        .collect();
    check_on_devices(&expected, |stream| {
        let mut output = stream.zeroed::<[u16; 3]>(expected.len())?;
        let view = output.volume_mut(width, height, depth)?;
        volume::launch(stream, LaunchConfig::new((2, 2, 4), (4, 3, 2)), view)?;
        stream.to_host(&output)
    });
}

/// Sums up the 64-bit index of every thread whose index passes `2^32`, where the grid is that large.
#[kernel]
fn large_index(interesting: u64, mut output: GridSliceMut<u64>) {
    let i = global_idx().get() as u64;
    if i == interesting {
        // The only thread that does so, and its witness is far past the end: element 0 is nobody's.
        let computed = u64::from(block_idx().x) * u64::from(block_dim().x) + u64::from(thread_idx().x);
        assert!(computed == i, "{computed} is not {i}");
        panic!("met thread {i}");
    }
    if let Some(output) = output.get_mut(&global_idx()) {
        *output = i;
    }
}

#[test]
fn case_a1_the_index_has_64_bits() {
    // The whole grid is 5.7e9 threads: for the GPU alone.
    let (grid, block) = (22_121_216u32, 256u32);
    for device in devices().filter(|device| device.is_gpu()) {
        let stream = device.stream().expect("a device gives streams");
        let mut output = stream.zeroed::<u64>(4).expect("a small copy works");
        for interesting in [1 << 32, u64::from(grid) * u64::from(block) - 1] {
            let error = large_index::launch(&stream, LaunchConfig::new(grid, block), interesting, &mut output)
                .and_then(|()| stream.synchronize())
                .expect_err("one thread panics");
            assert!(error.to_string().contains(&format!("met thread {interesting}")), "{error}");
        }
        assert_eq!(stream.to_host(&output).expect("the stream goes on"), [0, 1, 2, 3]);
    }
}

#[test]
fn case_b1_nothing_to_do_is_no_error() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let mut output = stream.zeroed::<u64>(0).expect("an empty buffer is fine");
        own_number::launch(&stream, LaunchConfig::for_len(0), &mut output).expect("nothing to do");
        assert_eq!(stream.to_host(&output).expect("an empty copy"), []);
        for (grid, block, name) in [((0, 1, 1), (1, 1, 1), "grid_dim.x"), ((1, 1, 1), (1, 0, 1), "block_dim.y")] {
            let error = own_number::launch(&stream, LaunchConfig::new(grid, block), &mut output)
                .expect_err("a dimension of 0 is refused");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}

#[test]
fn case_b4_too_large_is_refused_with_numbers() {
    for device in devices() {
        let stream = device.stream().expect("a device gives streams");
        let mut output = stream.zeroed::<u64>(1).expect("a small copy works");
        let limit = device.limits().max_threads_per_block;
        let cases = [
            (LaunchConfig::new(1, limit + 1), [limit + 1, limit]),
            (LaunchConfig::new((1, 65_536), 32), [65_536, 65_535]),
            (LaunchConfig::new((1, 1, 70_000), 32), [70_000, 65_535]),
        ];
        for (config, numbers) in cases {
            let error = own_number::launch(&stream, config, &mut output).expect_err("too large");
            for number in numbers {
                assert!(error.to_string().contains(&number.to_string()), "on {device}: {error}");
            }
        }
        own_number::launch(&stream, LaunchConfig::for_len(1), &mut output).expect("the next launch works");
        assert_eq!(stream.to_host(&output).expect("the stream goes on"), [1]);
    }
}

/// Every place of a plane, by strides of the grid.
#[kernel]
fn strided_plane(mut output: GridSliceMut<u64, Plane>) {
    let (width, height) = (output.map().width(), output.map().height());
    for place in grid_stride_2d(width, height) {
        if let Some(output) = output.get_mut(&place) {
            *output += ((place.y() as u64) << 32) + place.x() as u64 + 1;
        }
    }
}

/// Every place of a volume, by strides of the grid.
#[kernel]
fn strided_volume(mut output: GridSliceMut<u64, Volume>) {
    let (width, height, depth) = (output.map().width(), output.map().height(), output.map().depth());
    for place in grid_stride_3d(width, height, depth) {
        if let Some(output) = output.get_mut(&place) {
            *output += ((place.z() as u64) << 40) + ((place.y() as u64) << 20) + place.x() as u64 + 1;
        }
    }
}

#[test]
fn strides_cover_planes_and_volumes_once() {
    let shapes: [(Dim3, Dim3); 3] = [
        (Dim3::new(2, 2, 1), Dim3::new(8, 4, 1)),
        (Dim3::new(2, 1, 3), Dim3::new(3, 2, 2)),
        (Dim3::new(1, 1, 1), Dim3::new(32, 1, 1)),
    ];
    for (grid, block) in shapes {
        for (width, height, depth) in [(1usize, 1usize, 1usize), (16, 8, 2), (17, 9, 3), (100, 3, 5), (5, 70, 7)] {
            let plane: Vec<u64> =
                (0..width * height).map(|i| (((i / width) as u64) << 32) + (i % width) as u64 + 1).collect();
            check_on_devices(&plane, |stream| {
                let mut output = stream.zeroed::<u64>(plane.len())?;
                strided_plane::launch(stream, LaunchConfig::new(grid, block), output.plane_mut(width, height)?)?;
                stream.to_host(&output)
            });
            let volume: Vec<u64> = (0..width * height * depth)
                .map(|i| {
                    let (x, y, z) = (i % width, i / width % height, i / width / height);
                    ((z as u64) << 40) + ((y as u64) << 20) + x as u64 + 1
                })
                .collect();
            check_on_devices(&volume, |stream| {
                let mut output = stream.zeroed::<u64>(volume.len())?;
                let view = output.volume_mut(width, height, depth)?;
                strided_volume::launch(stream, LaunchConfig::new(grid, block), view)?;
                stream.to_host(&output)
            });
        }
    }
}
