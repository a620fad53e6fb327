//! A test is a function.

#[warpsmith::test]
struct Sums;

struct Lab;

impl Lab {
    #[warpsmith::test]
    fn method(&self) {}
}

fn main() {}
