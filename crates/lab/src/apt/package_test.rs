use super::*;
use crate::cache::hash_bytes;

fn package(content: &[u8]) -> Package {
    Package {
        file: "a_1_all.deb".into(),
        size: content.len() as u64,
        sha256: hash_bytes(content),
    }
}

#[test]
fn apts_list_is_read_and_its_chatter_skipped() {
    let sha256 = hash_bytes(b"");
    let text = format!(
        "Reading package lists...\n'http://mirror/pool/a_1%3a2_all.deb' a_1%3a2_all.deb 42 SHA256:{sha256}\n"
    );
    let list = Package::parse_list(&text).unwrap();
    assert_eq!(
        list,
        [Package {
            file: "a_1%3a2_all.deb".into(),
            size: 42,
            sha256
        }]
    );
}

#[test]
fn a_line_without_a_sha256_is_refused() {
    for line in [
        "'u' f 42 MD5Sum:00",
        "'u' f 42 ",
        "'u' f",
        "'u' f many SHA256:00",
        "'u' ../f 42 SHA256:00",
    ] {
        let error = Package::parse_list(line).unwrap_err();
        assert!(
            error.to_string().contains("SHA-256 were expected"),
            "{error}"
        );
    }
}

#[test]
fn a_truncated_file_and_a_changed_one_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a_1_all.deb");
    let package = package(b"whole");
    assert_eq!(
        package.fault(folder.path()).unwrap().unwrap(),
        "it is missing"
    );
    std::fs::write(&path, b"who").unwrap();
    assert_eq!(
        package.fault(folder.path()).unwrap().unwrap(),
        "3 bytes instead of 5"
    );
    std::fs::write(&path, b"while").unwrap();
    assert!(
        package
            .fault(folder.path())
            .unwrap()
            .unwrap()
            .starts_with("SHA-256 ")
    );
    std::fs::write(&path, b"whole").unwrap();
    assert_eq!(package.fault(folder.path()).unwrap(), None);
}
