//! `vmbell probe --devices`: what this host could assign to a guest, what stands in the way of each device, and the
//! commands that mend it. They are only printed.

mod candidates;
mod json;
mod text;

pub(crate) use candidates::report;
