// Package policy decides what an app may read from its host and which addresses
// and programs it may use. An app asks in its documents; the host answers with
// the grants of policy.yaml, which lies outside of the apps' folders. The package
// also knows private addresses in all their forms, and guards an app's
// connections by the addresses that they really go to.
package policy
