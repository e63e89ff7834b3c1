use super::*;

const TEXT: &str = r#"
# Ours.
format = 1
kernels = ["debian:6.12"]

[vmm.mine] # the one that we ship
command = "mine --kernel {image}"

"#;

fn parse(text: &str) -> Result<Budget, BudgetError> {
    Budget::parse(text, Path::new("gate.toml"))
}

fn figures(instructions: [f64; 3], exits: [f64; 3]) -> Figures {
    Figures {
        instructions: instructions.into(),
        exits: Some(exits.into()),
        to_vmm: None,
        reasons: [("io".to_owned(), 1.5)].into(),
        addresses: [("port 0x3f8".to_owned(), 7.0)].into(),
    }
}

fn measured() -> BTreeMap<Place, Measured> {
    let place = |vmm: &str| Place {
        kernel: "debian:6.12".to_owned(),
        vmm: vmm.to_owned(),
    };
    let rows = [
        ("cpuid", figures([2991.0; 3], [1.0; 3])),
        (
            "virtio-blk-eoi",
            figures([1.0, 2.25, 3.0], [0.95, 1.0, 1.0]),
        ),
    ];
    let measured = Measured {
        version: Some("mine \"1\"".to_owned()),
        kernel: Some("Linux 6.12.43".to_owned()),
        rows: rows.map(|(row, figures)| (row.to_owned(), figures)).into(),
        ..Measured::default()
    };
    [(place("mine"), measured)].into()
}

#[test]
fn what_is_accepted_is_read_again_and_what_people_wrote_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gate.toml");
    fs::write(&path, TEXT).unwrap();
    for _ in 0..2 {
        let (mut budget, text) = Budget::read(&path).unwrap();
        budget.accept(measured());
        budget.save(&path, &text).unwrap();
    }
    let (budget, text) = Budget::read(&path).unwrap();
    assert_eq!(budget.figures(&budget.kernels), measured());
    assert!(text.starts_with(TEXT), "{text}");
    assert_eq!(text.matches(FIGURES).count(), 1, "{text}");
    assert!(
        text.contains("cpuid = { exits = 1, instructions = 2991, reasons = { \"io\" = 1.5 }, addresses = { \"port 0x3f8\" = 7 } }"),
        "{text}"
    );
}

#[test]
fn a_new_plan_is_read_again() {
    let vmm = Vmm {
        command: Some("mine '{image}' \"a\\b\"\u{7f}".to_owned()),
        with: vec!["/a b".to_owned()],
    };
    let vmms = [
        ("alioth".to_owned(), Vmm::default()),
        ("mine.2".to_owned(), vmm),
    ];
    let mut budget = Budget::new(vec!["debian:6.1".to_owned()], vmms.into(), Some(3));
    budget.rows = vec!["cpuid".to_owned()];
    budget.linux = true;
    assert_eq!(parse(&budget.plan()).unwrap(), budget);
}

#[test]
fn figures_of_vmms_and_kernels_that_are_no_longer_held_are_dropped() {
    let mut budget = parse(TEXT).unwrap();
    budget.accept(measured());
    assert_eq!(budget.figures(&["debian:6.1".to_owned()]), BTreeMap::new());
    budget.kernels = vec!["debian:6.1".to_owned()];
    budget.accept(BTreeMap::new());
    assert_eq!(budget.measured, BTreeMap::new());
}

#[test]
fn a_file_of_another_format_says_so_whatever_else_it_has() {
    let error = parse("format = 7\nfuture = true\n")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("format 7") && error.contains("reads format 1") && error.contains("--init"),
        "{error}"
    );
}

#[test]
fn a_mistake_is_shown_with_its_line() {
    for (wrong, part) in [
        (TEXT.replace("kernels", "kernel"), "kernel"),
        (TEXT.replace("command = ", "command = 7 #"), "command"),
        (TEXT.replace("format = 1", ""), "format"),
        (TEXT.replace("[\"debian:6.12\"]", "[]"), "names no kernel"),
        (TEXT.replace("[vmm.mine]", "[vmm]"), "command"),
    ] {
        let error = parse(&wrong).unwrap_err().to_string();
        assert!(error.starts_with("gate.toml"), "{error}");
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_number_that_no_boot_gives_is_refused_with_its_line() {
    for wrong in [
        "exits = nan, instructions = 1",
        "exits = inf, instructions = 1",
        "exits = -1, instructions = 1",
        "exits = 1, instructions = -inf",
        "instructions = [1, 2, nan]",
        "instructions = [3, 2, 1]",
        "instructions = 1, reasons = { io = -1 }",
        "instructions = 1, addresses = { \"port 0x3f8\" = inf }",
    ] {
        let figures = format!("[measured.\"debian:6.12\".mine.rows]\ncpuid = {{ {wrong} }}\n");
        let error = parse(&format!("{TEXT}{figures}")).unwrap_err().to_string();
        let line = TEXT.lines().count() + 2;
        assert!(error.contains(&format!("line {line}")), "{wrong}: {error}");
        assert!(error.contains("at least 0"), "{wrong}: {error}");
    }
    let right = "[measured.\"debian:6.12\".mine.rows]\ncpuid = { instructions = [1, 2, 2.5] }\n";
    assert!(parse(&format!("{TEXT}{right}")).is_ok());
}
