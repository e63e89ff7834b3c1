//! Finds every interleaving in which a virtqueue driver and its device both sleep with work pending.
//!
//! A [`Scenario`] has a piece of shared memory, notifications, and tasks: a driver and a device, unmodified. An
//! [`Explorer`] runs every execution of them that a memory model allows, each once, and reports those in which a task waits
//! for a notification that never comes. A search that ends is a proof for its scenario; one that reaches a limit says so.
//!
//! The code under test is compiled with LLVM's ThreadSanitizer instrumentation, whose calls this crate defines: run the
//! tests with `cargo vmbell-check test`. The host must be Linux on x86-64 or arm64.
//!
//! ```
//! use vmbell_check::{Explorer, Load, Shape};
//!
//! let report = Explorer::new().run(|scenario| {
//!     let ring = scenario.ring(Shape::split(2, true));
//!     scenario.task("driver", ring.reference_driver(Load::new(2, 2)));
//!     scenario.background("device", ring.reference_device());
//! })?;
//! report.assert_complete().assert_no_failure();
//! # Ok::<(), vmbell_check::Error>(())
//! ```

#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux"
)))]
compile_error!("vmbell-check explores on Linux on x86-64 and arm64 only");

mod arch;
mod bell;
mod code;
mod error;
mod explorer;
mod graph;
mod guard;
mod hooks;
mod memory;
mod model;
mod names;
mod native;
mod report;
mod ring;
mod search;
mod shared;
mod signals;
mod task;
mod trace;
mod watchdog;
mod weaken;
mod window;

pub use bell::{Bell, Level, Message, Msi, Polled, Sleeper, Token, VhostUser, Width, Word};
pub use error::Error;
pub use explorer::{Explorer, Scenario};
pub use graph::Order;
pub use model::Model;
pub use native::Witness;
pub use report::{Failure, Report, Verdict, What};
pub use ring::{Format, Load, Ring, Shape};
pub use search::Operation;
pub use shared::{Memory, choose, claim, fence, spurious_wake_up};
pub use weaken::{Break, Effect, Minimal, Mutant, Outcome, Owner, Site, Source, Weakening};
