// Package policy authorizes apps: which variables and secrets of the host they may
// read, and which addresses and programs they may use. The host grants these in
// policy.yaml, outside of the app folders. The package also recognizes private
// addresses in all their forms, and checks the resolved address of each connection.
package policy
