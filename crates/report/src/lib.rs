//! The report of a measurement, and its formats: tables on a terminal, a page in a browser, Markdown, CSV and JSON.
//!
//! [`Report`] is plain data that serialises to the JSON described in `docs/report-schema.md`. Every writer is a
//! function from a report to text. Writers measure nothing, and take medians, spreads and ratios from the report, so
//! that they agree. The arithmetic is that of `vmbell-statistics`.

pub mod compare;
mod counts;
pub mod cpu_list;
mod csv;
mod diagram;
mod exits;
mod exporter;
mod file;
pub mod gate;
mod history;
mod host;
mod json;
mod metrics_text;
mod openmetrics;
mod page;
mod recording;
mod report;
mod row;
mod seconds;
mod table;
mod text;
mod time_unit;
mod timestamp;
mod timing;
mod top;
pub mod units;
mod view;
mod vmm;
mod warnings;
mod work;
mod write;

pub use counts::Counts;
pub use csv::csv;
pub use diagram::{DiagramError, diagram};
pub use exits::{ExitReasons, Exits, ExitsOfRun, Reasons, ReasonsOfRun, is_of_host};
pub use exporter::{EXPORTERS, Exporter};
pub use file::{Export, ExportError};
pub use host::Host;
pub use json::{ReadError, SCHEMA_VERSION, json, json_by_row, parse};
pub use metrics_text::{Label, MetricsText};
pub use openmetrics::openmetrics;
pub use page::{Run, page, recorded_page};
pub use recording::{Recording, RecordingError, RecordingHeader};
pub use report::{Backend, Highlight, Kind, Paths, Planned, Report, Tool, Tsc};
pub use row::{
    AddressSpace, Group, Measured, Outcome, Percentiles, PercentilesOf, Ratio, Row, Setting,
    Status, Times,
};
pub use table::{Align, Block, Cell, Column, Overflow, Paint, Table};
pub use text::{pad, shortened, shortened_in_the_middle, visible, width, wrap};
pub use time_unit::TimeUnit;
pub use timestamp::rfc3339;
pub use timing::Timing;
pub use top::{
    TopAccess, TopAddress, TopEventfd, TopHolder, TopIrqfd, TopLine, TopNameSource, TopSampled,
    TopSampledAddress, TopSource, TopVcpu, TopVm, TopWaiter,
};
pub use view::header::{header, spin_in_words};
pub use view::{Look, blocks, widest};
pub use vmm::{Vmm, VmmDevice, VmmGuest};
pub use warnings::{Warning, warnings};
pub use work::{Counted, EventUnit, Scope, Work};
pub use write::html::html;
pub use write::markdown::markdown;
pub use write::terminal::{Screen, TableLines, table_lines, terminal};

#[cfg(test)]
mod sample;
