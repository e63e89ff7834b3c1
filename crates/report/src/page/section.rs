//! The sections about paths: both directions, the rings, assigned devices and the host's floors, each with a chart and
//! a table.

use maud::{Markup, html};

use super::chart::{self, Floors};
use super::column::{PageColumn, PageLine, lines};
use super::table;
use crate::{Group, Kind, Report, Row};

/// Rows that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageSection {
    GuestToHost,
    HostToGuest,
    Rings,
    Devices,
    /// What the VMM's own calls cost.
    Registrations,
    /// The rows of `vmbell bench vmms`, whose names come from the guest image.
    Vmms,
    /// The rows of commands that measure the same thing in several ways.
    Variants,
    Floors,
}

impl PageSection {
    pub(super) const ALL: [Self; 8] = [
        Self::GuestToHost,
        Self::HostToGuest,
        Self::Rings,
        Self::Devices,
        Self::Registrations,
        Self::Vmms,
        Self::Variants,
        Self::Floors,
    ];

    /// The section that a row belongs to.
    pub(super) fn of(report: &Report, row: &Row) -> Self {
        const PREFIXES: [(&str, PageSection); 12] = [
            ("ioeventfd-", PageSection::Registrations),
            ("irqfd-assign-", PageSection::Registrations),
            ("irqfd-deassign-", PageSection::Registrations),
            ("irqfd-", PageSection::HostToGuest),
            ("msi-", PageSection::HostToGuest),
            ("eoi-", PageSection::HostToGuest),
            ("level-", PageSection::HostToGuest),
            ("self-ipi", PageSection::HostToGuest),
            ("ipi", PageSection::HostToGuest),
            ("virtqueue-", PageSection::Rings),
            ("passthrough-", PageSection::Devices),
            ("platform-", PageSection::Devices),
        ];
        match (&report.kind, row.group) {
            (Kind::Rings { .. } | Kind::Eoi { .. }, _) | (Kind::Paths(_), Group::Debug) => {
                Self::Variants
            }
            (Kind::Vmms { .. } | Kind::Net { .. }, _) => Self::Vmms,
            (Kind::Paths(_), Group::Floor) => Self::Floors,
            (Kind::Paths(_), Group::Scenario) => PREFIXES
                .into_iter()
                .find(|(prefix, _)| row.command.starts_with(prefix))
                .map_or(Self::GuestToHost, |(_, section)| section),
        }
    }

    /// The rows of the section that have numbers. A report's floors are the same in all of its columns, so only the
    /// first column has them.
    pub(super) fn lines<'r>(self, columns: &[PageColumn<'r>]) -> Vec<PageLine<'r>> {
        if self != Self::Floors {
            return lines(self, columns);
        }
        let first = one_of_each_run(columns);
        let mut lines = lines(self, &first);
        for line in &mut lines {
            let mut rows = vec![None; columns.len()];
            for (column, row) in line.cells(&first) {
                if let Some(at) = columns.iter().position(|other| other.place == column.place) {
                    rows[at] = Some(row);
                }
            }
            line.rows = rows;
        }
        lines
    }

    pub(super) const fn id(self) -> &'static str {
        match self {
            Self::GuestToHost => "guest-to-host",
            Self::HostToGuest => "host-to-guest",
            Self::Rings => "rings",
            Self::Devices => "devices",
            Self::Registrations => "registrations",
            Self::Vmms => "vmms",
            Self::Variants => "variants",
            Self::Floors => "floors",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::GuestToHost => "Guest to host",
            Self::HostToGuest => "Host to guest",
            Self::Rings => "Rings",
            Self::Devices => "Assigned devices",
            Self::Registrations => "Registrations",
            Self::Vmms => "VMMs",
            Self::Variants => "Variants",
            Self::Floors => "Floors of the host",
        }
    }

    const fn lead(self) -> &'static str {
        match self {
            Self::GuestToHost => {
                "A guest rings: a write that only means \"look now\". Rows named notify-* end when another thread has \
                 been woken; all others end when the vCPU goes on."
            }
            Self::HostToGuest => {
                "The host interrupts: from the signal to the first instruction of the guest's handler, and what the \
                 end of an interrupt costs."
            }
            Self::Rings => "A buffer goes through a virtqueue to a device and back.",
            Self::Devices => "Registers and interrupts of a device that belongs to the guest.",
            Self::Registrations => "The VMM registers an ioeventfd or an irqfd, or removes it.",
            Self::Vmms => "One guest image in several VMMs: what an exit costs in each of them.",
            Self::Variants => "Variants of the same work.",
            Self::Floors => {
                "What the host's own primitives cost without a guest. A path that uses one of them cannot be cheaper than it."
            }
        }
    }

    /// The floors that limit the section's paths.
    pub(super) const fn floors(self) -> &'static [&'static str] {
        match self {
            Self::GuestToHost => &[
                "floor-getppid",
                "floor-eventfd-write",
                "floor-kvm-ioeventfd",
                "floor-kvm-run-pio",
                "floor-kvm-run-mmio",
            ],
            Self::HostToGuest => &[
                "floor-eventfd-write",
                "floor-signal",
                "floor-futex-same-core",
                "floor-futex-cross-core",
            ],
            Self::Rings => &[
                "floor-cache-line",
                "floor-eventfd-write",
                "floor-futex-cross-core",
            ],
            Self::Devices | Self::Registrations | Self::Vmms | Self::Variants | Self::Floors => &[],
        }
    }
}

/// The section; `None` if no column has such rows.
pub(super) fn markup(section: PageSection, columns: &[PageColumn<'_>]) -> Option<Markup> {
    let lines = section.lines(columns);
    if lines.is_empty() {
        return None;
    }
    let floors = Floors::of(section, columns);
    Some(html! {
        section id=(section.id()) aria-labelledby=(format!("{}-title", section.id())) {
            h2 id=(format!("{}-title", section.id())) { (section.title()) }
            p.lead { (section.lead()) }
            (chart::markup(&lines, columns, &floors))
            (table::markup(section.title(), &lines, columns))
            (descriptions(&lines))
        }
    })
}

/// What one operation of each row is, for rows with a description.
fn descriptions(lines: &[PageLine<'_>]) -> Markup {
    let described =
        |line: &PageLine<'_>| Some((line.name.to_owned(), line.description()?.to_owned()));
    let described: Vec<(String, String)> = lines.iter().filter_map(described).collect();
    html! {
        @if !described.is_empty() {
            details.rows-explained {
                summary { "What one operation of each row is" }
                dl {
                    @for (name, text) in &described { dt { (name) } dd { (text) } }
                }
            }
        }
    }
}

/// The first column of each report.
pub(super) fn one_of_each_run<'r>(columns: &[PageColumn<'r>]) -> Vec<PageColumn<'r>> {
    let mut first: Vec<PageColumn<'r>> = Vec::new();
    for column in columns {
        if first.iter().all(|other| other.of_run != column.of_run) {
            first.push(*column);
        }
    }
    first
}
