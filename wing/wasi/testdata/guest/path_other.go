//go:build !wasip1

package main

import "errors"

func createLong(int) error { return errors.ErrUnsupported }
