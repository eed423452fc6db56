package main

import (
	"bytes"
	"context"
	"time"

	"go.etcd.io/bbolt"

	"agenthost/examples/extend/kvstore"
)

// boltDB is a bbolt file as a kvstore.DB. One process at a time can open it.
type boltDB struct{ *bbolt.DB }

// bucket has all rows.
const bucket = "agenthost"

func openBolt(file string) (boltDB, error) {
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		return boltDB{}, err
	}
	return boltDB{db}, db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists([]byte(bucket))
		return err
	})
}

func (db boltDB) View(_ context.Context, read func(kvstore.Tx) error) error {
	return db.DB.View(func(tx *bbolt.Tx) error { return read(boltTx{tx.Bucket([]byte(bucket))}) })
}

func (db boltDB) Update(_ context.Context, write func(kvstore.Tx) error) error {
	return db.DB.Update(func(tx *bbolt.Tx) error { return write(boltTx{tx.Bucket([]byte(bucket))}) })
}

// boltTx has the bucket's Put and Delete.
type boltTx struct{ *bbolt.Bucket }

func (tx boltTx) Get(key []byte) ([]byte, error) { return tx.Bucket.Get(key), nil }

func (tx boltTx) Scan(from, to []byte, each func(key, value []byte) error) error {
	c := tx.Cursor()
	for k, v := c.Seek(from); k != nil && bytes.Compare(k, to) < 0; k, v = c.Next() {
		if err := each(k, v); err != nil {
			return err
		}
	}
	return nil
}
