// Package policy authorizes apps: which variables and secrets of the host they may
// read, and which addresses and programs they may use. The host grants these in
// policy.yaml, outside of the folders of the apps. The package also recognizes
// private addresses in all their forms, and checks the connections of an app by the
// addresses that they are actually made to.
package policy
