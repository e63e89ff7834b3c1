use super::*;

#[test]
fn a_range_has_the_ends_and_the_middle() {
    assert_eq!(Range::of(&[3.0, 1.0, 2.0]), Some([1.0, 2.0, 3.0].into()));
    assert_eq!(Range::of(&[]), None);
    assert_eq!(
        Range::of(&[1.0, 2.0, 3.0, 4.0]),
        Some([1.0, 2.5, 4.0].into())
    );
    let five = [9.0, 1.0, 2.0, 3.0, 4.0];
    assert_eq!(Range::of(&five), Some([2.0, 3.0, 4.0].into()));
    let range = Range::of(&[98.0, 100.0, 101.0]).unwrap();
    assert_eq!(range.width(), 3.0);
    assert!(range.is_wide());
    assert!(!Range::of(&[99.0, 100.0, 101.0]).unwrap().is_wide());
}

#[test]
fn reasons_are_medians_over_boots() {
    let sample = |reasons: &[(&str, f64)]| Sample {
        instructions: 1.0,
        exits: None,
        to_vmm: None,
        reasons: reasons
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect(),
        addresses: BTreeMap::new(),
    };
    let boots = [
        sample(&[("io", 1.0), ("npf", 0.01)]),
        sample(&[("io", 1.0)]),
        sample(&[("io", 1.5)]),
    ];
    let figures = Figures::of(&boots).unwrap();
    assert_eq!(figures.reasons, [("io".to_owned(), 1.0)].into());
    assert_eq!(figures.exits, None);
}
