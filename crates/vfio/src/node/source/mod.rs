//! Where a device is described: the host's device tree, a folder of properties, or a compiled tree or overlay of the
//! user's.

mod blob;
mod choice;
mod clocks;
mod error;
mod folder;
mod references;
mod template;
mod tree;

pub use choice::Choice;
pub use error::SourceError;
pub use template::{Copied, Template};
pub use tree::Tree;
