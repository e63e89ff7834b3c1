use std::fs;

use super::*;
use vmbell_lab::board::AARCH64;

#[test]
fn the_own_profiles_program_is_taken_before_the_release() {
    let folder = tempfile::tempdir().unwrap();
    let target = target(&AARCH64);
    let place = |profile: &str| folder.path().join(&target).join(profile).join("vmbell");
    let own = folder.path().join("debug/vmbell");
    let cross = folder
        .path()
        .join("x86_64-unknown-linux-gnu/release/vmbell");
    assert_eq!(built(&own, &target), None);
    for profile in ["release", "debug"] {
        fs::create_dir_all(place(profile).parent().unwrap()).unwrap();
        fs::write(place(profile), "").unwrap();
        assert_eq!(built(&own, &target), Some(place(profile)));
        assert_eq!(built(&cross, &target), Some(place("release")));
    }
}

#[test]
fn a_program_that_cannot_run_there_is_refused() {
    let this = env::current_exe().unwrap();
    for board in LabBoard::ALL.iter().filter(|board| !board.is_native()) {
        let error = check(board, &this).unwrap_err().to_string();
        assert!(
            error.ends_with(&format!("the lab needs a vmbell for {}", board.arch.name)),
            "{error}"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmbell");
        let mut elf = fs::read(&this).unwrap();
        let machine: u16 = if board.arch.name == "aarch64" {
            183
        } else {
            62
        };
        elf[18..20].copy_from_slice(&machine.to_le_bytes());
        fs::write(&path, elf).unwrap();
        let error = check(board, &path).unwrap_err().to_string();
        assert!(error.contains("is linked dynamically"), "{error}");
    }
}
