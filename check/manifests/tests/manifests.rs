//! The manifests in `deploy/kubernetes`, read with Kubernetes' own types. A field that the types do not know would be lost.
#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "all of this is tests"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaim};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use vmbell_kit::wait::await_that;

/// Where the manifests are.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes");

/// Reads a manifest as a `T`, and checks that nothing of it was lost.
fn keeps_every_field<T: Serialize + DeserializeOwned>(name: &str) -> T {
    let path = Path::new(FOLDER).join(name);
    let text = fs::read_to_string(path).unwrap();
    let written: Value = serde_saphyr::from_str(&text).unwrap();
    let read: T = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), written);
    read
}

fn container(set: DaemonSet) -> Container {
    only(set.spec.unwrap().template.spec.unwrap().containers)
}

fn only(mut containers: Vec<Container>) -> Container {
    assert_eq!(containers.len(), 1);
    containers.remove(0)
}

#[test]
fn the_daemon_set_is_one_of_kubernetes() {
    let _: DaemonSet = keeps_every_field("daemonset.yaml");
}

#[test]
fn the_cron_job_is_one_of_kubernetes() {
    let _: CronJob = keeps_every_field("cronjob.yaml");
}

#[test]
fn the_claim_is_one_of_kubernetes_and_the_one_of_the_cron_job() {
    let claim: PersistentVolumeClaim = keeps_every_field("claim.yaml");
    let job: CronJob = keeps_every_field("cronjob.yaml");
    let pod = job.spec.job_template.spec.unwrap().template.spec.unwrap();
    let volumes = pod.volumes.unwrap();
    let claimed = volumes
        .iter()
        .find_map(|volume| volume.persistent_volume_claim.as_ref());
    assert_eq!(
        claim.metadata.name,
        Some(claimed.unwrap().claim_name.clone())
    );
    // The user of the container may write what the volume's group may.
    let user = pod.containers[0]
        .security_context
        .as_ref()
        .unwrap()
        .run_as_user;
    assert!(user.is_some());
    assert_eq!(pod.security_context.unwrap().fs_group, user);
}

#[test]
fn the_pods_of_the_sweep_try_all_shards_and_pass_what_a_vmm_lost() {
    let job: Job = keeps_every_field("sweep.yaml");
    let job = job.spec.unwrap();
    let container = only(job.template.spec.unwrap().containers);
    let folder = tempfile::tempdir().unwrap();
    let vmbell = folder.path().join("vmbell");
    fs::write(
        &vmbell,
        "#!/bin/sh\nprintf '%s\\n' $6 $LAST\nexit $STATUS\n",
    )
    .unwrap();
    fs::set_permissions(&vmbell, fs::Permissions::from_mode(0o755)).unwrap();
    let [shell, option] = container.command.unwrap().try_into().unwrap();
    let [script] = container.args.unwrap().try_into().unwrap();
    let script = script.replace("/history", &folder.path().display().to_string());
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let completions = job.completions.unwrap();
    for index in 0..completions {
        // The last line of a report is a brace, unless it was cut.
        let whole = [0, 1, 3].map(|status| (status, "}", 0));
        let failed = [2, 69, 77].map(|status| (status, "}", 1));
        let cut = [0, 1, 3].map(|status| (status, "", 1));
        for (status, last, expected) in [whole, failed, cut].concat() {
            let mut command = Command::new(&shell);
            command.arg(&option).arg(&script);
            command.env("PATH", &path).env("INDEX", index.to_string());
            command.env("STATUS", status.to_string()).env("LAST", last);
            let ended = command.status().unwrap();
            assert_eq!(ended.code(), Some(expected), "{status} {last}");
        }
        let shard = format!("{}/{completions}", index + 1);
        let report = folder.path().join(format!("sweep-{}.json", index + 1));
        assert_eq!(
            fs::read_to_string(report).unwrap(),
            format!("{shard}\n}}\n")
        );
    }
}

#[test]
fn the_daemon_set_runs_as_the_owner_of_the_nodes_folder() {
    let container = container(keeps_every_field("daemonset.yaml"));
    // The image's own user may not write to the folder of the node.
    assert_eq!(container.security_context.unwrap().run_as_user, Some(0));
}

#[test]
fn the_loop_of_the_daemon_set_ends_a_bench_when_it_is_told_to_end() {
    let container = container(keeps_every_field("daemonset.yaml"));
    let folder = tempfile::tempdir().unwrap();
    let vmbell = folder.path().join("vmbell");
    let begun = folder.path().join("begun");
    let script = format!("#!/bin/sh\n: >{}\nexec sleep 1000\n", begun.display());
    fs::write(&vmbell, script).unwrap();
    fs::set_permissions(&vmbell, fs::Permissions::from_mode(0o755)).unwrap();
    let [shell, option] = container.command.unwrap().try_into().unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let mut child = Command::new(shell)
        .arg(option)
        .args(container.args.unwrap())
        .env("PATH", path)
        .spawn()
        .unwrap();
    await_that("the bench", || begun.exists());
    let pid = child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    let mut status = None;
    await_that("the end of the loop", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    let status = status.unwrap();
    assert!(status.success(), "{status}");
}
