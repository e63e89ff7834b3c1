use tempfile::TempDir;

use super::*;

const WANTED: [WantedEvent; 3] = [
    WantedEvent::all("kvm_exit"),
    WantedEvent::all("kvm_userspace_exit"),
    WantedEvent::only("kvm_pio", "port == 128"),
];

/// A folder with the files that the kernel makes in an instance.
fn double() -> (TempDir, TraceInstance) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("instance");
    for file in [
        "buffer_size_kb",
        "trace_clock",
        "options/event-fork",
        "set_event_pid",
        "tracing_on",
        "trace_pipe",
        "events/kvm/kvm_pio/filter",
        "events/kvm/kvm_pio/enable",
        "events/kvm/kvm_exit/enable",
        "events/kvm/kvm_userspace_exit/enable",
    ] {
        let file = path.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
    }
    let instance = TraceInstance {
        folder: path,
        held: None,
    };
    (folder, instance)
}

#[test]
fn an_instance_records_what_this_thread_starts() {
    let (_folder, instance) = double();
    instance
        .set_up(2, &WANTED, TracedThreads::Children)
        .unwrap();
    let written = |name: &str| fs::read_to_string(instance.folder.join(name)).unwrap();
    assert_eq!(written("set_event_pid"), this_thread().unwrap());
    assert_eq!(written("options/event-fork"), "1");
    assert_eq!(written("events/kvm/kvm_pio/filter"), "port == 128");
    for WantedEvent { event, .. } in WANTED {
        assert_eq!(written(&format!("events/kvm/{event}/enable")), "1");
    }
}

#[test]
fn the_events_of_all_are_recorded_whoever_causes_them() {
    let (_folder, instance) = double();
    instance.set_up(2, &WANTED, TracedThreads::All).unwrap();
    let written = |name: &str| fs::read_to_string(instance.folder.join(name)).unwrap();
    assert_eq!(written("set_event_pid"), "");
    assert_eq!(written("events/kvm/kvm_exit/enable"), "1");
}

#[test]
fn the_buffers_stay_small_on_a_host_of_many_cpus() {
    for (cpus, size) in [(1, MOST), (32, 2 << 10), (1024, LEAST)] {
        let (_folder, instance) = double();
        instance
            .set_up(cpus, &WANTED, TracedThreads::Children)
            .unwrap();
        let written = fs::read_to_string(instance.folder.join("buffer_size_kb")).unwrap();
        assert_eq!(written, size.to_string());
    }
}

#[test]
fn a_file_that_the_kernel_does_not_have_is_named() {
    let (_folder, instance) = double();
    fs::remove_file(instance.folder.join("set_event_pid")).unwrap();
    let error = instance
        .set_up(1, &WANTED, TracedThreads::Children)
        .unwrap_err();
    assert!(error.to_string().contains("set_event_pid"), "{error}");
    assert!(!instance.folder.join("set_event_pid").exists());
}

#[test]
fn our_instances_are_removed_unless_they_are_held() {
    let folder = TempDir::new().unwrap();
    for name in [
        "vmbell-aB3dE6gH",
        "vmbell-0000held",
        "vmbell-x",
        "vmbell-",
        "other-12345678",
    ] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    // The kernel does not remove an instance with an open file; here, a file in the folder prevents the removal.
    fs::write(folder.path().join("vmbell-0000held/file"), "").unwrap();
    remove_unused(folder.path());
    let entries = fs::read_dir(folder.path()).unwrap();
    let mut left: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(
        left,
        ["other-12345678", "vmbell-", "vmbell-0000held", "vmbell-x"]
    );
}

#[test]
fn an_instance_that_cannot_be_held_is_not_left() {
    let folder = TempDir::new().unwrap();
    // In this folder, no kernel makes the files of an instance.
    let error = TraceInstance::make(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("/vmbell-") && error.ends_with("/tracing_on cannot be read"),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_host_without_tracefs_or_its_events_says_so() {
    let folder = TempDir::new().unwrap();
    let (here, there) = (folder.path().join("a"), folder.path().join("b"));
    let places = [here.as_path(), there.as_path()];
    assert!(matches!(
        place(&places, &WANTED),
        Err(TracefsError::NotMounted)
    ));
    fs::create_dir_all(there.join("events/kvm/kvm_exit")).unwrap();
    let error = place(&places, &WANTED).unwrap_err();
    assert!(
        matches!(
            error,
            TracefsError::NoEvent {
                event: "kvm_userspace_exit"
            }
        ),
        "{error}"
    );
    for WantedEvent { event, .. } in WANTED {
        fs::create_dir_all(there.join("events/kvm").join(event)).unwrap();
    }
    assert_eq!(place(&places, &WANTED).unwrap(), there);
}

#[test]
fn an_instance_goes_with_its_value() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("vmbell-1");
    fs::create_dir(&path).unwrap();
    drop(TraceInstance {
        folder: path.clone(),
        held: None,
    });
    assert!(!path.exists());
}
