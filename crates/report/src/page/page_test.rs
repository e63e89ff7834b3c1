use super::*;
use crate::{Group, Outcome, Report, Timing, sample};

/// The text of a page in source order: one line for each block element, without drawings.
fn text(page: &str) -> String {
    const BLOCKS: [&str; 15] = [
        "dt",
        "p",
        "h1",
        "h2",
        "h3",
        "li",
        "tr",
        "caption",
        "figcaption",
        "summary",
        "details",
        "div",
        "section",
        "title",
        "footer",
    ];
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        let (tag, after) = after.split_once('>').unwrap();
        let name = tag.trim_start_matches('/').split(' ').next().unwrap();
        text.push(if BLOCKS.contains(&name) { '\n' } else { ' ' });
        rest = match name {
            "style" | "svg" if !tag.starts_with('/') => {
                after.split_once(&format!("</{name}>")).unwrap().1
            }
            _ => after,
        };
    }
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text
        .lines()
        .map(words)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("\n")
}

#[test]
fn the_page_of_a_native_run() {
    insta::assert_snapshot!(text(&page(&[Run::of("a.json", sample::report())])));
}

#[test]
fn the_page_of_two_runs_of_two_backends() {
    let mut slower = sample::two_backends();
    for row in &mut slower.results {
        if let Some(measured) = row.measured_mut() {
            measured.times.median *= 1.5;
        }
    }
    slower.host.kernel = "Linux 6.19.0".to_owned();
    let runs = [
        Run::of("a.json", sample::two_backends()),
        Run::of("b.json", slower),
    ];
    insta::assert_snapshot!(text(&page(&runs)));
}

/// The words before `cheaper`, such as `3.5x`.
fn cheaper(line: &str) -> &str {
    let (before, _) = line.split_once(" cheaper").unwrap();
    before.split(' ').next_back().unwrap()
}

/// The ratio of the samples' medians is 2.3, and the report has a different ratio, as after a bootstrap over rounds.
#[test]
fn the_headline_and_the_table_have_one_ratio() {
    let mut report = sample::report();
    let row = |row: &&mut crate::Row| row.command == "portio-wildcard-eventfd";
    let row = report.results.iter_mut().find(row).unwrap();
    sample::of(row).ratio.as_mut().unwrap().value = 1.0 / 3.5;
    // The headline once said this as well, with another ratio.
    let mut datamatch = row.clone();
    datamatch.command = "portio-datamatch-eventfd".to_owned();
    sample::of(&mut datamatch).ratio.as_mut().unwrap().value = 0.25;
    report.results.push(datamatch);
    let text = text(&page(&[Run::of("a.json", report)]));
    let headline = text.lines().next().unwrap();
    let table = text.split_once("Guest to host: the numbers\n").unwrap().1;
    let of_row = table
        .lines()
        .find(|line| line.starts_with("portio-wildcard-eventfd "))
        .unwrap();
    assert_eq!(cheaper(headline), "3.5x", "{headline}");
    assert_eq!(cheaper(of_row), cheaper(headline), "{of_row}");
    // The overview's sentences do not repeat the ratio.
    assert_eq!(text.matches("3.5x cheaper than").count(), 2, "{text}");
}

#[test]
fn a_logarithmic_axis_has_dots_and_whiskers_and_no_bars() {
    let mut report = sample::report();
    sample::of(&mut report.results[0]).times.median *= 1000.0;
    report.results.retain(|row| row.group == Group::Scenario);
    let page = page(&[Run::of("a.json", report)]);
    let (charts, _) = page.split_once("id=\"exits\"").unwrap();
    assert!(charts.contains("The scale is logarithmic"));
    let bars = ["class=\"bar\"", "class=\"bar bound\""];
    assert!(!bars.iter().any(|bar| charts.contains(bar)), "{charts}");
    assert!(charts.contains("class=\"median\"") && charts.contains("class=\"whisker\""));
}

#[test]
fn what_only_kvm_costs_comes_last_or_not_at_all() {
    let mut report = sample::two_backends();
    report.backends[0].emulates_kernel_mode = true;
    let mut floor = report
        .results
        .iter()
        .find(|row| row.group == Group::Floor)
        .unwrap()
        .clone();
    floor.command = "floor-kvm-run-pio".to_owned();
    report.results.push(floor);
    let runs = [Run::of("a.json", report.clone())];
    let columns = columns(&runs);
    let backends: Vec<&str> = columns.iter().map(|column| column.backend).collect();
    assert_eq!(backends, ["usermode", "kvm"]);
    let limits = |report: &Report| {
        let text = text(&page(&[Run::of("a.json", report.clone())]));
        text.contains("floor-kvm-run-pio (")
    };
    assert!(limits(&report));
    report.results.retain(|row| row.backend != "kvm");
    assert!(!limits(&report));
}

#[test]
fn a_page_loads_and_runs_nothing() {
    let page = page(&[Run::of("a.json", sample::report())]);
    assert!(page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'"));
    for word in [
        "<script",
        "<img",
        "<link",
        "src=",
        "url(",
        "@import",
        "javascript:",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    let http: Vec<&str> = page.matches("http").collect();
    let namespaces = page.matches("http://www.w3.org/2000/svg").count();
    let policy = page.matches("http-equiv").count();
    assert_eq!(http.len(), namespaces + policy);
}

#[test]
fn hostile_names_stay_text_everywhere() {
    const NAME: &str =
        "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\u{1b}[31m\0\u{202e}";
    let mut report = sample::two_backends();
    for row in &mut report.results {
        row.command = format!("{NAME}{}", row.command);
        row.description = Some(NAME.to_owned());
        row.reference = Some(NAME.to_owned());
        row.note = Some(NAME.to_owned());
        match &mut row.outcome {
            Outcome::Measured(measured) => {
                if let Some(ratio) = &mut measured.ratio {
                    ratio.reference = NAME.to_owned();
                }
            }
            Outcome::Skipped { reason } | Outcome::Failed { reason } => {
                *reason = Some(NAME.to_owned());
            }
        }
    }
    for backend in &mut report.backends {
        backend.why = NAME.to_owned();
    }
    report.host.cpu = NAME.to_owned();
    report.host.kvm_params = [(NAME.to_owned(), NAME.to_owned())].into();
    report.started = NAME.to_owned();
    report.tool.version = NAME.to_owned();
    sample::paths(&mut report).highlights[0].text = NAME.to_owned();
    let mut of_vmms = report.clone();
    of_vmms.kind = crate::Kind::Vmms {
        vmms: vec![sample::vmm(NAME, 1, false)],
    };
    for row in &mut of_vmms.results {
        row.backend = NAME.to_owned();
    }
    for page in [
        page(&[Run::of(NAME, report.clone()), Run::of("b", report)]),
        page(&[Run::of(NAME, of_vmms)]),
    ] {
        for word in ["<script", "<img", "\u{1b}", "\0", "\u{202e}"] {
            assert!(!page.contains(word), "{word:?}");
        }
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;"));
        assert!(page.contains("&amp;amp;"));
    }
}

#[test]
fn times_of_an_emulated_cpu_are_neither_drawn_nor_cores() {
    let mut report = sample::report();
    report.timing = Timing::Emulated;
    let page = page(&[Run::of("a.json", report)]);
    let text = text(&page);
    assert!(
        text.contains("An emulated CPU: exits were counted"),
        "{text}"
    );
    assert!(text.contains("No chart: the CPU was emulated"), "{text}");
    assert!(text.contains("cores cannot be computed"), "{text}");
    assert!(!page.contains("class=\"whisker\""));
    // Exit counts are valid, and are drawn.
    assert!(page.contains("class=\"light\""));
}

#[test]
fn instructions_are_never_called_time() {
    let text = text(&page(&[Run::of("a.json", sample::counted())]));
    assert!(
        text.contains("Median number of instructions per operation, not a time"),
        "{text}"
    );
    for unit in [" ns", " µs", "/s "] {
        assert!(!text.contains(unit), "{unit} in {text}");
    }
}

#[test]
fn events_that_were_counted_are_shown_by_operation_and_are_no_cores() {
    let text = text(&page(&[Run::of("a.json", sample::events())]));
    assert!(
        text.contains("What one interrupt costs in 2 ways"),
        "{text}"
    );
    // 2000 and 1500 exits in 500 interrupts.
    assert!(text.contains("kvm:kvm_exit 4 3"), "{text}");
    assert!(text.contains("ends by the bit 0 1"), "{text}");
    assert!(text.contains("cores cannot be computed"), "{text}");
}

#[test]
fn a_run_without_rows_is_a_page_too() {
    let mut report = sample::report();
    report.results.clear();
    sample::paths(&mut report).highlights.clear();
    let text = text(&page(&[Run::of("a.json", report)]));
    assert!(text.contains("Hosts and warnings"), "{text}");
}

#[test]
fn a_backend_that_emulates_kernel_mode_is_a_sentence_and_not_in_the_first_chart() {
    let mut report = sample::two_backends();
    report.backends[0].emulates_kernel_mode = true;
    let page = text(&page(&[Run::of("a.json", report)]));
    let (first, rest) = page.split_once("\nScatter").unwrap();
    assert!(first.starts_with("A doorbell (ioeventfd) costs"), "{first}");
    assert!(
        first.contains("kvm† emulates the guest's kernel mode"),
        "{first}"
    );
    assert!(!first.contains("7.10 µs"), "{first}");
    assert!(rest.contains("7.10 µs"), "the tables have it");
}

#[test]
fn what_is_odd_about_a_run_is_told() {
    let doorbell = "portio-wildcard-eventfd";
    type Change = fn(&mut Report);
    let changes: [(Change, &str); 5] = [
        (
            |report| report.interrupted = true,
            "2026-11-21T09:30:00Z, ended early\n",
        ),
        (
            |report| report.timed_out = true,
            "2026-11-21T09:30:00Z, ended early\n",
        ),
        (
            |report| {
                let row = sample::of(&mut report.results[2]);
                row.times.resolution = Some(7000.0);
                let ratio = row.ratio.as_mut().unwrap();
                (ratio.value, ratio.is_bound) = (0.25, true);
            },
            "A doorbell (ioeventfd) costs less than 7.00 µs, more than 4.0x cheaper than an exit to the VMM (14.2 µs)\n",
        ),
        (
            |report| {
                let ratio = sample::of(&mut report.results[2]).ratio.as_mut().unwrap();
                (ratio.value, ratio.ci_low, ratio.ci_high) = (1.0, None, None);
            },
            "A doorbell (ioeventfd) costs 6.24 µs, as much as an exit to the VMM (14.2 µs)\n",
        ),
        (
            |report| {
                let reasons = [("io".to_owned(), 2.0), ("hlt".to_owned(), 0.0)].into();
                sample::of(&mut report.results[2]).exit_reasons = Some(crate::ExitReasons {
                    kvm_exit: reasons,
                    kvm_userspace_exit: [("io".to_owned(), 0.0)].into(),
                });
            },
            "\nportio-wildcard-eventfd io 2 none\n",
        ),
    ];
    for (change, told) in changes {
        let mut report = sample::report();
        assert_eq!(report.results[2].command, doorbell);
        let before = text(&page(&[Run::of("a.json", report.clone())]));
        change(&mut report);
        let after = text(&page(&[Run::of("a.json", report)]));
        assert!(
            after.contains(told) && !before.contains(told),
            "{told}: {after}"
        );
    }
}

#[test]
fn a_run_of_another_unit_is_not_drawn_beside_the_first() {
    let runs = [
        Run::of("a.json", sample::report()),
        Run::of("b.json", sample::counted()),
        Run::of("c.json", sample::counted()),
    ];
    let text = text(&page(&runs));
    let told = "Not drawn, because their numbers have another unit: b.json, c.json.";
    assert!(text.contains(told), "{text}");
    let doubt = "b.json: emulated: numbers are instructions of this kernel";
    assert!(text.contains(doubt), "{text}");
}

#[test]
fn the_headline_of_vmms_names_the_one_with_the_least_numbers() {
    let vmm = sample::vmm;
    let rows = |first: f64| {
        vec![
            sample::of_vmm("a", "cpuid", first),
            sample::of_vmm("b", "cpuid", 2000.0),
        ]
    };
    for (vmms, rows, headline) in [
        (
            vec![vmm("a", 1, false), vmm("b", 1, false)],
            rows(1000.0),
            "a takes the least time in 1 of 1 row, among 2 VMMs",
        ),
        (
            vec![vmm("a", 1, false), vmm("b", 1, false)],
            rows(3000.0),
            "b takes the least time in 1 of 1 row, among 2 VMMs",
        ),
        // The times of one backend say nothing, so only the other one is left.
        (
            vec![vmm("a", 1, true), vmm("b", 1, false)],
            rows(1000.0),
            "What 1 row cost in 2 VMMs",
        ),
    ] {
        let is_emulated = vmms[0].emulated;
        let page = text(&page(&[Run::of("a.json", sample::of_vmms(vmms, rows))]));
        assert!(page.contains(&format!("\n{headline}\n")), "{page}");
        assert_eq!(page.contains("a‡"), is_emulated, "{page}");
    }
}

/// A linear search for each row would take too long.
#[test]
fn a_page_of_many_rows_has_each_once_in_the_order_of_its_report() {
    const ROWS: usize = 100_000;
    let mut first = sample::report();
    let model = first.results[0].clone();
    let row = |index: usize| crate::Row {
        command: format!("row-{index}"),
        ..model.clone()
    };
    first.results = (0..ROWS).map(row).collect();
    let mut second = first.clone();
    // Every second row has a different name, and follows the row before it.
    for row in second.results.iter_mut().skip(1).step_by(2) {
        row.command.push_str("-now");
    }
    let runs = [Run::of("first", first), Run::of("second", second)];
    let columns = columns(&runs);
    let lines = column::lines(PageSection::GuestToHost, &columns);
    let names: Vec<&str> = lines.iter().take(6).map(|line| line.name).collect();
    assert_eq!(
        names,
        ["row-0", "row-1-now", "row-1", "row-2", "row-3-now", "row-3"]
    );
    assert_eq!(lines.len(), ROWS + ROWS / 2);
    let last = runs[1].report.results.last().unwrap();
    let id = samples::id(&columns[columns.len() - 1], last);
    assert_eq!(id, format!("samples-1-{}", ROWS - 1));
}
