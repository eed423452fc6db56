// Package policy is what the one who runs a host grants to its apps: an app
// asks in its documents, and the host's policy.yaml, which lies outside of the
// apps, answers. It knows private addresses in all their forms, and guards the
// connections of an app by the addresses that they really go to.
package policy
