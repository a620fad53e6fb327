//! The examples of warpsmith.
