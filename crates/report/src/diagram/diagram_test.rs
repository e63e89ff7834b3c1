use super::draw::GAP;
use super::*;
use crate::sample::{self, assert_recorded};
use crate::{Backend, Row, json_by_row};

fn of(backend: &str, rows: &[(&str, f64)]) -> Vec<Row> {
    let rows = rows.iter();
    rows.map(|(name, median)| sample::of_vmm(backend, name, *median))
        .collect()
}

/// A report of the deterministic lab with these rows.
fn counted(rows: &[(&str, f64)]) -> Report {
    let mut report = sample::counted();
    report.backends = vec![Backend {
        name: "kvm".to_owned(),
        ..Backend::default()
    }];
    report.results = of("kvm", rows);
    report
}

/// A report with two backends, the first of which emulates the guest's kernel mode, with one row each.
fn timed() -> Report {
    let mut report = sample::two_backends();
    report.backends[0].emulates_kernel_mode = true;
    report.results = of("kvm", &[("portio-no-eventfd", 9380.0)]);
    report
        .results
        .extend(of("usermode", &[("portio-no-eventfd", 3090.0)]));
    report
}

#[test]
fn the_diagram_of_counted_paths() {
    let report = counted(&[
        ("portio-no-eventfd", 3378.0),
        ("mmio-wildcard-eventfd", 3737.4),
        ("irqfd-level-to-halted", 16_498.0),
        ("eoi-pv", 8.0),
        ("virtqueue-roundtrip-ioeventfd-irqfd", 1_021_079.0),
        ("portio-datamatch-eventfd", 1251.0),
    ]);
    insta::assert_snapshot!(diagram(&report).unwrap());
}

#[test]
fn every_arrow_is_drawn_once_with_its_row() {
    let arrows = || GROUPS.iter().flat_map(|group| group.arrows);
    let rows: Vec<(&str, f64)> = arrows().map(|arrow| (arrow.row, 1234.0)).collect();
    let picture = diagram(&counted(&rows)).unwrap();
    for arrow in arrows() {
        let row = format!(">\n{}\n</text>", arrow.row);
        assert_eq!(picture.matches(&row).count(), 1, "{}", arrow.row);
    }
    let costs = picture.matches(">\n1,234 instructions\n</text>").count();
    assert_eq!(costs, rows.len());
}

#[test]
fn a_path_that_was_not_measured_has_no_arrow() {
    let mut report = counted(&[("portio-no-eventfd", 3378.0), ("eoi-pv", 8.0)]);
    report.results[1].outcome = crate::Outcome::Skipped { reason: None };
    let picture = diagram(&report).unwrap();
    assert!(picture.contains("portio-no-eventfd"), "{picture}");
    for absent in ["eoi-pv", "vmcall", "end an"] {
        assert!(!picture.contains(absent), "{absent} in {picture}");
    }
}

#[test]
fn times_have_their_unit_and_are_of_the_backend_that_runs_kernel_mode_on_the_cpu() {
    let picture = diagram(&timed()).unwrap();
    for present in ["3.09 µs", "usermode", "vmbell 0.1.0, 2026-11-21\n"] {
        assert!(picture.contains(present), "{present} in {picture}");
    }
    for absent in ["9.38 µs", "KVM\n", "nstructions"] {
        assert!(!picture.contains(absent), "{absent} in {picture}");
    }
    let mut report = timed();
    report.results.pop();
    let picture = diagram(&report).unwrap();
    assert!(picture.contains("9.38 µs"), "the other one has rows");
}

#[test]
fn a_median_below_the_resolution_is_a_bound() {
    let mut report = timed();
    let times = &mut sample::of(&mut report.results[1]).times;
    times.median = 0.3;
    times.resolution = Some(1.0);
    let picture = diagram(&report).unwrap();
    assert!(picture.contains("&lt;1.00 ns"), "{picture}");
}

#[test]
fn numbers_have_their_thousands_apart() {
    let numbers = [0.002, 8.0, 9.74, 10.4, 999.6, 3737.4, 1_021_079.0];
    let texts = ["<0.01", "8", "9.74", "10", "1,000", "3,737", "1,021,079"];
    assert_eq!(numbers.map(grouped), texts);
}

#[test]
fn what_has_no_diagram_is_refused() {
    let refused = |report: &Report| diagram(report).unwrap_err().to_string();
    let vmms = sample::of_vmms(Vec::new(), Vec::new());
    let told = "the diagram is of vmbell bench, and this report is of vmbell bench vmms";
    assert_eq!(refused(&vmms), told);
    let mut emulated = timed();
    emulated.timing = Timing::Emulated;
    assert!(refused(&emulated).contains("emulated CPU"));
    let others = counted(&[("portio-datamatch-eventfd", 1251.0)]);
    assert!(refused(&others).contains("no path of the diagram was measured"));
}

#[test]
fn hostile_names_stay_text() {
    const NAME: &str = "<script>\"'&amp;]]>\u{1b}[31m\u{202e}";
    let mut report = timed();
    report.host.kernel = NAME.to_owned();
    report.host.cpu = NAME.to_owned();
    report.tool.version = NAME.to_owned();
    report.started = NAME.to_owned();
    let picture = diagram(&report).unwrap();
    for word in ["<script", "]]>", "\u{1b}", "\u{202e}"] {
        assert!(!picture.contains(word), "{word:?} in {picture}");
    }
    assert!(picture.contains("&lt;script&gt;\"'&amp;amp;"), "{picture}");
}

#[test]
fn the_diagram_loads_and_runs_nothing() {
    let picture = diagram(&timed()).unwrap();
    assert_eq!(picture.matches("http").count(), 1, "the namespace");
    for word in ["<script", "href", "url(", "@import", "@font-face", "<image"] {
        assert!(!picture.contains(word), "{word}");
    }
}

/// The widths are those of DejaVu, the widest common font.
#[test]
#[allow(clippy::cast_precision_loss, reason = "short texts")]
fn texts_fit_between_the_lanes() {
    let gap = f64::from(GAP);
    for group in &GROUPS {
        for words in group.caption {
            assert!(words.len() <= 11, "{words}");
        }
        for arrow in group.arrows {
            let [near, far] = arrow.back;
            let texts = [
                (arrow.label, 7.7),
                (arrow.far, 7.2),
                (near, 7.2),
                (far, 7.2),
                (arrow.row, 6.7),
            ];
            for (words, width) in texts {
                assert!(words.len() as f64 * width < gap, "{words}");
            }
        }
    }
}

/// `vmbell lab --deterministic -- vmbell bench --all --export-json docs/paths.json` measures the report again. With
/// `UPDATE_FILES` set, this test keeps only the rows that are drawn, one per line, and writes the picture.
#[test]
fn the_picture_of_the_readme_is_that_of_its_report() {
    const JSON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/paths.json");
    let mut report = crate::parse(&std::fs::read_to_string(JSON).unwrap()).unwrap();
    assert_eq!(report.timing, Timing::Instructions);
    let arrows = || GROUPS.iter().flat_map(|group| group.arrows);
    let is_drawn = |row: &Row| row.is_ok() && arrows().any(|arrow| arrow.row == row.command);
    report.results.retain(is_drawn);
    assert_recorded("../../docs/paths.json", &json_by_row(&report));
    assert_recorded("../../docs/paths.svg", &diagram(&report).unwrap());
}
