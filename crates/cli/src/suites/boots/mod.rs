//! The engine of comparisons of VMMs: columns, each a VMM with a guest, are booted in turns, counted and shown.
//!
//! `bench vmms` and `bench net` are data for it: which columns there are ([`BootWay`]), and what one boot of a column gives
//! ([`BootResult`]). `run` boots them and makes the report, whose rows `rows` makes of what they gave.

pub(crate) mod args;
mod column;
mod ended;
mod rows;
mod run;

pub(crate) use self::column::{
    BatchTimes, BootColumn, BootResult, BootRow, BootWay, CountedBatch, CountedRows, VmmFailure,
};
pub(crate) use self::ended::{in_words, keep, last_words, version_of};
pub(crate) use self::run::{BootPlan, BootsRun};
