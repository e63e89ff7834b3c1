//! The report of a measurement, and its forms: tables on a terminal, a page in a browser, Markdown, CSV and JSON.
//!
//! [`Report`] is plain data that serialises to the JSON described in `docs/report-schema.md`. Every
//! writer is a function from a report to text; none of them measures, and all take medians, spreads and
//! ratios from the report, so that they agree. [`statistics`], [`outliers`] and [`bootstrap`] are the
//! arithmetic on samples that the maker of a report needs.

mod answer;
mod bar;
pub mod bootstrap;
mod brief;
mod cells;
mod columns;
pub mod compare;
mod counts;
pub mod cpu_list;
mod csv;
mod events;
mod exits;
mod exporter;
mod file;
pub mod gate;
mod header;
mod history;
mod host;
mod json;
mod markdown;
mod metrics_text;
mod openmetrics;
pub mod outliers;
mod page;
mod perf_stat;
mod random;
mod recording;
mod report;
mod row;
mod seconds;
pub mod statistics;
mod terminal;
mod text;
mod time_unit;
mod timestamp;
mod timing;
mod top;
pub mod units;
mod vmm;
mod vmm_counts;
mod vmm_exits;
mod vmm_table;
mod warnings;
mod work;

pub use columns::aligned;
pub use counts::Counts;
pub use csv::csv;
pub use exits::{ExitReasons, Exits, ExitsOfRun, Reasons, ReasonsOfRun, is_of_host};
pub use exporter::{EXPORTERS, Exporter};
pub use file::{Export, ExportError};
pub use header::{header, spin_in_words};
pub use host::Host;
pub use json::{ReadError, SCHEMA_VERSION, json, parse};
pub use markdown::markdown;
pub use metrics_text::{Label, MetricsText};
pub use openmetrics::openmetrics;
pub use page::{Run, page, recorded_page};
pub use random::Random;
pub use recording::{Recording, RecordingError, RecordingHeader};
pub use report::{Backend, Highlight, Kind, Paths, Planned, Report, Tool, Tsc};
pub use row::{
    AddressSpace, Group, Measured, Outcome, Percentiles, PercentilesOf, Ratio, Row, Setting,
    Status, Times,
};
pub use terminal::{Look, terminal};
pub use text::{pad, shortened, shortened_in_the_middle, visible, width, wrap};
pub use time_unit::TimeUnit;
pub use timestamp::rfc3339;
pub use timing::Timing;
pub use top::{
    TopAccess, TopAddress, TopEventfd, TopHolder, TopIrqfd, TopLine, TopNameSource, TopSampled,
    TopSampledAddress, TopSource, TopVcpu, TopVm, TopWaiter,
};
pub use vmm::{Vmm, VmmDevice, VmmGuest};
pub use warnings::{Warning, warnings};
pub use work::{Counted, EventUnit, Scope, Work};

#[cfg(test)]
mod sample;
