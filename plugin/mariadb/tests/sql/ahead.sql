# Rows that are read together before the server asks for them: for keys in a list, for entries of an
# index, for joins.
CREATE TABLE t (
    id INT PRIMARY KEY, a INT, b INT NOT NULL, s VARCHAR(20), c CHAR(60), note VARCHAR(420), KEY a (a), KEY sb (s, b), UNIQUE KEY cb (c, b));
INSERT INTO t
    SELECT seq * 3, IF(seq % 13 = 0, NULL, seq % 60), seq % 7, CONCAT('s', seq % 90), CONCAT(LPAD(seq, 11, '0'), '-', LPAD(seq * 7919 % 100003, 11, '0')),
        REPEAT(CHAR(65 + seq % 26), seq % 400)
    FROM seq_1_to_4000;
CREATE TABLE pair (x INT, y VARCHAR(20) CHARACTER SET latin1, z INT, note BLOB, PRIMARY KEY (x, y), KEY z (z));
INSERT INTO pair SELECT seq % 50, CONCAT('y', seq), seq * 31 % 4000, REPEAT(CHAR(97 + seq % 26), seq % 100) FROM seq_1_to_2000;
CREATE TABLE keys_of (n INT PRIMARY KEY, k INT, x INT, y VARCHAR(20), KEY k (k));
INSERT INTO keys_of SELECT seq, seq * 17 % 13000, seq % 60, CONCAT('y', seq) FROM seq_1_to_500;
ANALYZE TABLE t, pair, keys_of PERSISTENT FOR ALL;
# Some rows are in the tree, others in memory.
FLUSH ENGINE LOGS;
UPDATE t SET note = CONCAT(note, '!') WHERE id % 4 = 0;
DELETE FROM t WHERE id % 30 = 0;

# Lists of keys, some of which do not exist, and some of which occur twice.
SELECT id, c, LENGTH(note) FROM t WHERE id IN (3, 6, 7, 30, 9, 9, 12, 11997, 12000, 12003, -1, 4500) ORDER BY id;
SELECT id, note FROM t WHERE id IN (3, 6, 7, 30, 9, 12, 15, 18, 21, 24, 27, 33, 36, 39, 42, 45, 48, 51, 54, 57, 60, 63, 66) ORDER BY id DESC;
SELECT COUNT(*), SUM(CRC32(c)), SUM(LENGTH(note)) FROM t WHERE id IN (
    3, 33, 63, 93, 123, 153, 183, 213, 243, 273, 303, 333, 363, 393, 423, 453, 483, 513, 543, 573, 603, 633, 663, 693, 723, 753, 783, 813,
    1003, 1033, 1063, 1093, 1123, 1153, 1183, 1213, 1243, 1273, 1303, 1333, 1363, 1393, 1423, 1453, 1483, 1513, 1543, 1573, 1603, 1633);
SELECT id FROM t WHERE id IN (9, 3, 6, 12, 15) AND note <> '' LIMIT 2;
SELECT id, LENGTH(note) FROM t WHERE id IN (3, 6, 9) OR id BETWEEN 100 AND 110 OR id IN (300, 303, 309) OR id > 11990 ORDER BY id;
SELECT x, y, z, note FROM pair WHERE (x, y) IN ((1, 'y1'), (1, 'y51'), (2, 'Y2'), (3, 'y3'), (3, 'nothing'), (49, 'y49'), (NULL, 'y1'));
SELECT x, COUNT(*), SUM(LENGTH(note)) FROM pair WHERE x IN (3, 7, 60) GROUP BY x;
SELECT x, y, note FROM pair WHERE x = 7 AND y IN ('y7', 'y57', 'y107', 'y8') ORDER BY y;

# Entries of an index.
SELECT id, c, note FROM t FORCE INDEX (a) WHERE a = 17 ORDER BY id LIMIT 30;
SELECT id, c FROM t FORCE INDEX (a) WHERE a IS NULL ORDER BY id LIMIT 30;
SELECT a, COUNT(*), SUM(CRC32(c)), SUM(LENGTH(note)) FROM t FORCE INDEX (a) WHERE a BETWEEN 5 AND 25 GROUP BY a;
SELECT id, a, note FROM t FORCE INDEX (a) WHERE a > 50 ORDER BY a DESC, id DESC LIMIT 40;
SELECT id, s, b, c FROM t FORCE INDEX (sb) WHERE s BETWEEN 's1' AND 's3' AND b IN (1, 4) ORDER BY s, b, id LIMIT 50;
SELECT COUNT(*), SUM(LENGTH(note)) FROM t FORCE INDEX (sb) WHERE s LIKE 's2%' AND b % 2 = 1;
SELECT id, note FROM t FORCE INDEX (cb) WHERE c LIKE '0000000010%' AND note <> '' ORDER BY c;
SELECT id, note FROM t FORCE INDEX (cb) WHERE c = '00000000100-00000091908' AND b = 2;
SELECT SUM(LENGTH(note)) FROM t FORCE INDEX (a) WHERE a IN (1, 2, 3, 70, 59);

# Joins, row by row and in batches.
SET optimizer_switch = 'mrr=on,mrr_cost_based=off,mrr_sort_keys=on,join_cache_hashed=on,join_cache_bka=on';
DELIMITER //
CREATE PROCEDURE joins()
BEGIN
    SELECT k.n, t.id, LENGTH(t.note) FROM keys_of k JOIN t ON t.id = k.k WHERE k.n <= 120 ORDER BY 1, 2;
    SELECT COUNT(*), SUM(CRC32(t.c)), SUM(LENGTH(t.note)) FROM keys_of k JOIN t ON t.id = k.k;
    SELECT k.n, t.id, t.a FROM keys_of k LEFT JOIN t ON t.id = k.k AND t.b < 5 WHERE k.n BETWEEN 90 AND 150 ORDER BY 1, 2;
    SELECT k.n, t.id FROM keys_of k LEFT JOIN t ON t.id = k.k WHERE t.id IS NULL AND k.n < 100 ORDER BY 1;
    SELECT k.n, p.z, LENGTH(p.note) FROM keys_of k JOIN pair p ON p.x = k.x AND p.y = k.y ORDER BY 1;
    SELECT k.n, COUNT(*), SUM(LENGTH(p.note)) FROM keys_of k JOIN pair p ON p.x = k.x WHERE k.n < 70 GROUP BY k.n ORDER BY 1;
    SELECT k.n, COUNT(*), SUM(t.id), SUM(LENGTH(t.note)) FROM keys_of k JOIN t FORCE INDEX (a) ON t.a = k.x WHERE k.n < 90 GROUP BY k.n ORDER BY 1;
    SELECT k.n, t.id, LENGTH(t.note) FROM keys_of k JOIN t FORCE INDEX (sb) ON t.s = CONCAT('s', k.x) AND t.b + k.n % 3 = 4 WHERE k.n < 40 ORDER BY 1, 2;
    SELECT k.n FROM keys_of k WHERE k.n < 200 AND EXISTS (SELECT 1 FROM t WHERE t.a = k.x AND t.note > 'M') ORDER BY 1;
    SELECT k.n FROM keys_of k WHERE k.n < 200 AND k.k IN (SELECT t.id FROM t WHERE t.b < 4 AND t.note > 'D') ORDER BY 1;
    SELECT COUNT(*), SUM(LENGTH(t.note)) FROM keys_of k, pair p, t WHERE p.x = k.x AND t.id = p.z * 3 AND k.n < 60;
END //
DELIMITER ;
SET join_cache_level = 2;
CALL joins();
SET join_cache_level = 5;
CALL joins();
SET join_cache_level = 6;
CALL joins();
SET join_cache_level = 8;
CALL joins();
SET optimizer_switch = 'mrr_sort_keys=off';
CALL joins();
SET join_buffer_size = 1024;
CALL joins();
SET optimizer_switch = DEFAULT, join_cache_level = DEFAULT, join_buffer_size = DEFAULT;

# In a transaction that has written some of the rows; its snapshot does not change.
SET autocommit = 0;
SELECT COUNT(*) FROM t;
UPDATE t SET note = 'mine', a = 17 WHERE id IN (3, 6, 9, 600);
DELETE FROM t WHERE id IN (33, 36);
INSERT INTO t VALUES (4, 17, 1, 's1', 'new', 'new');
SELECT id, a, LENGTH(note) FROM t WHERE id IN (3, 4, 5, 6, 9, 12, 33, 36, 39, 600, 603) ORDER BY id;
SELECT id, LEFT(note, 5) FROM t FORCE INDEX (a) WHERE a = 17 ORDER BY id LIMIT 20;
SELECT id, a, LENGTH(note) FROM t WHERE id IN (3, 4, 5, 6, 9, 12, 33, 36, 39) ORDER BY id FOR UPDATE;
SELECT id, LEFT(note, 5) FROM t FORCE INDEX (a) WHERE a = 18 ORDER BY id LIMIT 20 LOCK IN SHARE MODE;
CALL joins();
ROLLBACK;
SELECT id, a, LENGTH(note) FROM t WHERE id IN (3, 4, 5, 6, 9, 12, 33, 36, 39, 600, 603) ORDER BY id;
COMMIT;
SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE;
SELECT id, a, LENGTH(note) FROM t WHERE id IN (3, 4, 5, 6, 9, 12, 33, 36, 39, 600, 603) ORDER BY id;
SELECT id, LEFT(note, 5) FROM t FORCE INDEX (a) WHERE a = 17 ORDER BY id LIMIT 20;
COMMIT;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT id, a, LENGTH(note) FROM t WHERE id IN (3, 4, 5, 6, 9, 12, 33, 36, 39, 600, 603) ORDER BY id;
COMMIT;
SET autocommit = 1;

# Columns that only some statements need, and scans that are interrupted by other statements.
SELECT id FROM t FORCE INDEX (a) WHERE a BETWEEN 3 AND 5 AND LENGTH(note) > 390 ORDER BY id;
UPDATE t JOIN keys_of k ON t.id = k.k SET t.note = CONCAT(k.n, t.note) WHERE k.n < 60;
UPDATE keys_of k JOIN t ON t.id = k.k SET k.x = t.b WHERE k.n < 60;
DELETE k FROM keys_of k JOIN t ON t.id = k.k WHERE t.b = 3;
INSERT INTO keys_of SELECT 1000 + t.id, t.id, t.b, t.s FROM t WHERE t.id IN (3, 6, 9, 12, 15, 18, 21, 24, 27);
SELECT COUNT(*), SUM(n), SUM(k), SUM(x) FROM keys_of;
SELECT COUNT(*), SUM(CRC32(note)) FROM t;
HANDLER t OPEN AS h;
HANDLER h READ a = (17) LIMIT 3;
HANDLER h READ a NEXT LIMIT 5;
DELETE FROM t WHERE a = 17 AND id > 900;
HANDLER h READ a NEXT LIMIT 12;
HANDLER h READ a PREV LIMIT 4;
HANDLER h CLOSE;
DROP PROCEDURE joins;
DROP TABLE t, pair, keys_of;
