//! Finds every interleaving in which a virtqueue driver and its device both sleep with work pending.
//! (docs to come)
#![allow(dead_code, missing_docs, missing_debug_implementations)]
mod bell;
mod error;
mod explorer;
mod graph;
mod guard;
mod hooks;
mod memory;
mod model;
mod report;
mod ring;
mod search;
mod shared;
mod task;
mod trace;

pub use bell::{Bell, Sleeper};
pub use error::Error;
pub use explorer::{Explorer, Scenario};
pub use graph::Order;
pub use model::Model;
pub use report::{Failure, Report, Verdict, What};
pub use ring::{Format, Load, Ring, Shape};
pub use shared::{Memory, choose, claim, fence};
