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

fn measured() -> BTreeMap<Place, Measured> {
    let place = Place {
        kernel: "debian:6.12".to_owned(),
        vmm: "mine".to_owned(),
    };
    let measured = Measured {
        version: Some("mine 1".to_owned()),
        ..Measured::default()
    };
    [(place, measured)].into()
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

#[test]
fn a_number_of_boots_that_init_does_not_take_is_refused() {
    for boots in ["0", "1001", "4294967295"] {
        let text = TEXT.replace("format = 1", &format!("format = 1\nboots = {boots}"));
        let error = parse(&text).unwrap_err().to_string();
        assert_eq!(error, format!("gate.toml has {boots} boots, not 1 to 1000"));
    }
}
