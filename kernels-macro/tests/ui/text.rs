//! Text crosses as bytes.
use warpsmith::prelude::*;

#[kernel]
fn find(text: &str, word: String) {
    let _ = (text, word);
}

fn main() {}
