use super::*;

/// A `/proc` in which process 91 started at the time 1073.
fn proc(folder: &Path) {
    fs::create_dir_all(folder.join("91")).unwrap();
    let stat = format!("91 (vmbell) S{} 1073 0", " 0".repeat(18));
    fs::write(folder.join("91/stat"), stat).unwrap();
}

#[test]
fn instances_of_ended_processes_are_left_over_and_others_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let (tracefs, proc_folder) = (folder.path().join("tracing"), folder.path().join("proc"));
    proc(&proc_folder);
    for name in [
        "vmbell-top-91-1073",
        // Another process had this number before.
        "vmbell-top-91-5",
        "vmbell-top-92-1073",
        "vmbell-91",
        "vmbell-top-all",
        "somebody",
    ] {
        fs::create_dir_all(tracefs.join("instances").join(name)).unwrap();
    }
    let events =
        "vmbell_top_91_1073_mmio\tu64 gpa\nvmbell_top_93_7_port\tu64 info\nwakeup\tu64 lat\n";
    fs::write(tracefs.join("synthetic_events"), events).unwrap();
    let expected = ["vmbell-top-91-5", "vmbell-top-92-1073", "vmbell-top-93-7"];
    assert_eq!(left_over(&tracefs, &proc_folder), expected);
}

#[test]
fn only_an_instance_of_this_command_can_be_removed() {
    let named = |name| Instance::of_name(Path::new("/"), name).is_some();
    assert!(named("vmbell-top-91-1073"));
    for name in [
        "",
        "vmbell-91",
        "vmbell-top-91",
        "vmbell-top-91-1073/..",
        "../x",
    ] {
        assert!(!named(name), "{name}");
    }
}

#[test]
fn a_folder_without_instances_is_no_tracefs() {
    let folder = tempfile::tempdir().unwrap();
    let places = [folder.path().join("one"), folder.path().join("two")];
    let places = [&*places[0], &*places[1]];
    assert!(matches!(mounted(&places), Err(TracefsError::NotMounted)));
    fs::create_dir_all(places[1].join("instances")).unwrap();
    assert_eq!(mounted(&places).unwrap(), places[1]);
}
