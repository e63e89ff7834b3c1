use clap::ValueEnum;
use proptest::prelude::*;

use super::*;

const AMOUNT: NetperfAmount = NetperfAmount {
    transactions: 2000,
    bytes: 2_000_000,
};
const OUT: NetperfPattern = NetperfPattern::OutBulk;

/// Output of netperf 2.7.0.
const ROUND_TRIPS: &str = "TRANSACTION_RATE=8000.000
THROUGHPUT=8000.00
THROUGHPUT_UNITS=Trans/s
LOCAL_BYTES_SENT=2000
LOCAL_BYTES_RECVD=2000
";
const STREAM: &str = "TRANSACTION_RATE=1.000
THROUGHPUT=289.60
THROUGHPUT_UNITS=10^6bits/s
LOCAL_BYTES_SENT=0
LOCAL_BYTES_RECVD=2027200
";

#[test]
fn round_trips_have_the_time_of_one() {
    let done = read(ROUND_TRIPS.as_bytes(), NetperfPattern::Rr, AMOUNT).unwrap();
    assert_eq!((done.operations, done.ns), (2000.0, 125_000.0));
}

#[test]
fn a_stream_has_the_time_of_a_segment() {
    let done = read(STREAM.as_bytes(), OUT, AMOUNT).unwrap();
    assert_eq!(done.operations, 1400.0);
    assert!((done.ns - 40_000.0).abs() < 1e-6, "{done:?}");
}

#[test]
fn broken_results_are_told_apart() {
    let error = |text: &str, pattern| read(text.as_bytes(), pattern, AMOUNT).unwrap_err();
    assert_eq!(
        error("", NetperfPattern::Rr),
        NetperfError::Missing("TRANSACTION_RATE")
    );
    let cut = &ROUND_TRIPS[..20];
    assert_eq!(
        error(cut, NetperfPattern::Rr),
        NetperfError::Missing("TRANSACTION_RATE")
    );
    for value in ["0.000", "-1", "inf", "nan", "many", "\u{1b}[2J"] {
        let text = ROUND_TRIPS.replace("8000.000", value);
        let error = error(&text, NetperfPattern::Rr);
        assert!(matches!(error, NetperfError::Number { .. }), "{value}");
        assert!(!error.to_string().contains('\u{1b}'), "{error:?}");
    }
    assert_eq!(
        error(ROUND_TRIPS, OUT),
        NetperfError::Unit("Trans/s".to_owned())
    );
    let into = NetperfPattern::InBulk;
    // The output of a stream in the other direction.
    assert!(matches!(
        error(STREAM, into),
        NetperfError::Number {
            key: "LOCAL_BYTES_SENT",
            ..
        }
    ));
}

#[test]
fn the_length_is_an_amount() {
    let guest = Ipv4Addr::new(192, 0, 2, 2);
    let line = |pattern| {
        let words = words(Path::new("/netperf"), pattern, guest, AMOUNT);
        words.join(" ".as_ref()).into_string().unwrap()
    };
    let begin = "/netperf -4 -H 192.0.2.2 -P 0 -t";
    let trips = line(NetperfPattern::Rr);
    assert!(trips.starts_with(&format!("{begin} TCP_RR -l -2000 -- -r 1,1 -k ")));
    let stream = line(OUT);
    let sizes = "-s 65536,65536 -S 65536,65536 -m 8192,8192 -M 8192,8192 -k ";
    assert!(stream.starts_with(&format!("{begin} TCP_MAERTS -l -2000000 -- {sizes}")));
}

proptest! {
    #[test]
    fn no_output_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for pattern in NetperfPattern::value_variants() {
            let _ = read(&bytes, *pattern, AMOUNT);
        }
    }
}
