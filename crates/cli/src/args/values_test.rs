//! Tests of parsing the values of flags.

use super::*;

#[test]
fn durations_have_units() {
    for (text, expected) in [
        ("15ms", Duration::from_millis(15)),
        ("1.5s", Duration::from_millis(1500)),
        ("2", Duration::from_secs(2)),
        ("2m", Duration::from_secs(120)),
        ("10us", Duration::from_micros(10)),
        ("250 ns", Duration::from_nanos(250)),
        ("2 min", Duration::from_secs(120)),
        ("0.25", Duration::from_millis(250)),
        ("1h 30m", Duration::from_secs(5400)),
        ("0", Duration::ZERO),
    ] {
        assert_eq!(duration(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_not_a_duration_is_an_error() {
    for text in [
        "",
        "ms",
        "-1s",
        "1.2.3s",
        "5 parsecs",
        "1e400",
        "NaN",
        "inf",
    ] {
        let error = duration(text).unwrap_err();
        assert!(error.ends_with("such as 500ms or 1.5s"), "{text}: {error}");
    }
    let error = duration("5 parsecs").unwrap_err();
    assert!(error.contains("ns, us, ms, sec, min, hours"), "{error}");
    let huge = "9".repeat(400);
    assert!(duration(&huge).is_err());
    assert!(positive_duration("0ms").is_err());
}

#[test]
fn no_runs_are_refused() {
    assert!(positive::<u32>("0").unwrap_err().contains("at least 1"));
    assert_eq!(positive::<u32>("3"), Ok(3));
    assert!(positive::<u32>("-1").is_err());
    assert!(positive::<u32>("99999999999").is_err());
}

#[test]
fn sizes_have_units_of_1024_or_none() {
    assert_eq!(size("4096"), Ok(4096));
    assert_eq!(size("64M"), Ok(64 << 20));
    assert_eq!(size("4g"), Ok(4 << 30));
    assert_eq!(size("1TiB"), Ok(1 << 40));
    for wrong in ["", "M", "1.5G", "-1", "1X", "99999999999T"] {
        assert!(size(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn percentages_have_their_sign() {
    assert_eq!(percent("5%"), Ok(0.05));
    assert_eq!(percent("0.5 %"), Ok(0.005));
    assert_eq!(percent("0%"), Ok(0.0));
    for wrong in [
        "", "%", "5", "0.05", "five%", "NaN%", "inf%", "5%%", "1e400%",
    ] {
        let error = percent(wrong).unwrap_err();
        assert!(
            error.starts_with("expected a percentage"),
            "{wrong}: {error}"
        );
    }
    assert_eq!(percent("-1%").unwrap_err(), "-1% is below 0%");
}
