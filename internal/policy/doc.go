// Package policy authorizes apps: which host variables and secrets they may read, and which
// addresses and programs they may use. The host grants these in policy.yaml, outside the app
// folders. The package also recognizes private addresses in all their forms, and checks each
// connection's resolved address.
package policy
