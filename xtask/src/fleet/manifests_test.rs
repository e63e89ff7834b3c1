//! The manifests in `deploy/kubernetes`, read with Kubernetes' own types. A field that the types do not know would be lost.

use std::fs;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::batch::v1::CronJob;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::artifacts;

/// Reads a manifest as a `T`, and checks that nothing of it was lost.
fn keeps_every_field<T: Serialize + DeserializeOwned>(name: &str) {
    let path = artifacts::root().join("deploy/kubernetes").join(name);
    let text = fs::read_to_string(path).unwrap();
    let written: Value = serde_saphyr::from_str(&text).unwrap();
    let read: T = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), written);
}

#[test]
fn the_daemon_set_is_one_of_kubernetes() {
    keeps_every_field::<DaemonSet>("daemonset.yaml");
}

#[test]
fn the_cron_job_is_one_of_kubernetes() {
    keeps_every_field::<CronJob>("cronjob.yaml");
}
