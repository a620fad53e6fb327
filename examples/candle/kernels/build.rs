//! Compiles the kernels of this package.

fn main() {
    warpsmith_build::compile();
}
