//! Compiles the kernels of the tests.

fn main() {
    // The oldest architecture and one of today's: what depends on the architecture shows, and more would only take longer.
    warpsmith_build::Builder::new().architectures([75, 90]).compile();
}
