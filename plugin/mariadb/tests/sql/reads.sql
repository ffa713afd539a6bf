# What reads skip: rows that an index condition or a filter rejects, columns that no statement
# needs, rows beyond a range.
CREATE TABLE t (
    id INT PRIMARY KEY, a INT, b INT NOT NULL, s VARCHAR(20), c CHAR(10) CHARACTER SET latin1, note TEXT,
    doubled INT AS (a * 2) VIRTUAL, KEY ab (a, b), KEY s (s), KEY bs (b DESC, s), UNIQUE KEY ca (c, a));
INSERT INTO t (id, a, b, s, c, note)
    SELECT seq, IF(seq % 11 = 0, NULL, seq % 50), seq % 7, CONCAT('s', seq % 30), CONCAT('c', seq), REPEAT(CHAR(65 + seq % 26), seq % 300)
    FROM seq_1_to_3000;
ANALYZE TABLE t PERSISTENT FOR ALL;
# Moves the rows from memory to the tree.
FLUSH ENGINE LOGS;

# Index condition pushdown.
FLUSH LOCAL STATUS;
SELECT id, LENGTH(note) FROM t FORCE INDEX (ab) WHERE a BETWEEN 3 AND 9 AND b = 2 AND id % 3 = 1 ORDER BY id;
SELECT variable_name, variable_value > 0 FROM information_schema.session_status WHERE variable_name LIKE 'HANDLER_ICP%' ORDER BY 1;
SELECT id, s FROM t FORCE INDEX (ab) WHERE a > 45 AND b IN (1, 3) ORDER BY a DESC, b DESC, id DESC;
SELECT id, s FROM t FORCE INDEX (ab) WHERE a < 4 AND b % 2 = 0 ORDER BY a, b, id;
SELECT id, s FROM t FORCE INDEX (ab) WHERE a = 7 AND b % 2 = 0 ORDER BY id;
SELECT id, s FROM t FORCE INDEX (ab) WHERE a IS NULL AND b % 3 = 0 AND id < 700 ORDER BY id;
SELECT id, a FROM t FORCE INDEX (s) WHERE s LIKE 's1%' AND s LIKE '%9' AND note <> '' ORDER BY id LIMIT 20;
SELECT id, a FROM t FORCE INDEX (bs) WHERE b > 4 AND s = 's7' AND note <> '' ORDER BY b, s, id;
SELECT id, a FROM t FORCE INDEX (bs) WHERE b < 2 AND s = 's7' AND note <> '' ORDER BY b DESC, s DESC, id DESC;
SELECT id, b FROM t FORCE INDEX (ca) WHERE c = 'c17' AND a = 17 AND note <> '';
SELECT id, b FROM t FORCE INDEX (ca) WHERE c > 'c29' AND c <= 'c3' AND a % 2 = 0 AND b < 9 ORDER BY id;
SELECT x.id, y.id FROM t x JOIN t y FORCE INDEX (ab) ON y.a = x.b AND y.b < x.id AND LENGTH(y.note) > 280 WHERE x.id < 9 ORDER BY 1, 2;
UPDATE t FORCE INDEX (ab) SET note = CONCAT('!', note) WHERE a BETWEEN 10 AND 12 AND b = 3;
DELETE FROM t WHERE a BETWEEN 20 AND 21 AND b = 3 AND LENGTH(note) > 100;
SELECT COUNT(*), SUM(id), SUM(LENGTH(note)), SUM(CRC32(note)) FROM t;

# Rowid filters.
SET optimizer_switch = 'rowid_filter=on';
SELECT id, note FROM t WHERE a BETWEEN 3 AND 20 AND s = 's4' AND LENGTH(note) < 90 ORDER BY id;
SELECT x.id, y.id FROM t x JOIN t y ON y.s = x.s AND y.a BETWEEN 1 AND 2 AND y.note > 'M' WHERE x.id < 40 ORDER BY 1, 2;
SELECT COUNT(*) FROM t WHERE a BETWEEN 3 AND 9 AND s IN ('s4', 's5') AND b = 2;

# Multi-range read: row positions and keys are sorted before the rows are read.
SET optimizer_switch = 'mrr=on,mrr_sort_keys=on,mrr_cost_based=off', join_cache_level = 8;
SELECT id, LENGTH(note) FROM t FORCE INDEX (ab) WHERE a IN (1, 7, 30, 49) AND b < 3 ORDER BY id;
SELECT id, LENGTH(note) FROM t FORCE INDEX (s) WHERE s BETWEEN 's12' AND 's14' ORDER BY id;
SELECT x.id, y.id, LENGTH(y.note) FROM t x JOIN t y FORCE INDEX (ab) ON y.a = x.b WHERE x.id IN (5, 6, 8, 9) AND y.id < 400 ORDER BY 1, 2;
SELECT x.id, y.id, LENGTH(y.note) FROM t x JOIN t y FORCE INDEX (PRIMARY) ON y.id = x.a * 17 WHERE x.id < 100 ORDER BY 1, 2;
SELECT x.id, y.a FROM t x LEFT JOIN t y ON y.id = x.a * 90 WHERE x.id BETWEEN 30 AND 60 ORDER BY 1, 2;
DELETE x FROM t x JOIN t y FORCE INDEX (ab) ON y.a = x.b WHERE x.id BETWEEN 2900 AND 2910 AND y.b = 1;
SELECT COUNT(*), SUM(id) FROM t;
SET optimizer_switch = DEFAULT, join_cache_level = DEFAULT;

# Several indexes of one table in one query.
SELECT id FROM t WHERE (a = 5 OR s = 's9') AND b = 4 ORDER BY id;
SELECT id, LENGTH(note) FROM t FORCE INDEX (ab, s) WHERE a = 5 AND s = 's25' ORDER BY id;
SELECT id, LENGTH(note) FROM t WHERE a = 5 OR s = 's9' ORDER BY id LIMIT 30;
SELECT id FROM t WHERE a = 5 AND s = 's25' ORDER BY id LOCK IN SHARE MODE;

# Groups whose first and last rows come from an index.
SELECT a, MIN(b), MAX(b) FROM t GROUP BY a;
SELECT a, MIN(b) FROM t WHERE b > 2 GROUP BY a;
SELECT a, MAX(b) FROM t WHERE b < 5 AND a > 40 GROUP BY a;
SELECT DISTINCT a FROM t WHERE a > 10 AND a < 20;
SELECT COUNT(DISTINCT a, b), MIN(a), MAX(a) FROM t;
SELECT b, MIN(s), MAX(s) FROM t GROUP BY b ORDER BY b;
SELECT MAX(id), MIN(id) FROM t WHERE id < 2000;
SELECT MAX(s) FROM t WHERE b = 3;
SELECT MIN(a) FROM t WHERE a > 30;

# A scan continues after the key that was searched for, and changes direction.
HANDLER t OPEN h;
HANDLER h READ ab = (7, 0);
HANDLER h READ ab NEXT LIMIT 3;
HANDLER h READ ab PREV LIMIT 5;
HANDLER h READ ab >= (49, 6) LIMIT 2;
HANDLER h READ ab NEXT LIMIT 200;
HANDLER h READ ab < (2, 0) LIMIT 2;
HANDLER h READ ab NEXT LIMIT 3;
HANDLER h READ ca = ('c17', 17);
HANDLER h READ ca NEXT LIMIT 2;
HANDLER h READ ca PREV LIMIT 3;
HANDLER h READ `PRIMARY` <= (10) LIMIT 2;
HANDLER h READ `PRIMARY` PREV LIMIT 2;
HANDLER h READ `PRIMARY` NEXT LIMIT 4;
HANDLER h CLOSE;

# Reads of some columns, also of rows that the transaction has written, and of different columns of
# one table within one statement.
SELECT doubled, b FROM t WHERE id BETWEEN 8 AND 14 ORDER BY id;
SELECT note FROM t WHERE id = 40;
SELECT c FROM t WHERE id = 41;
SELECT SUM(LENGTH(note)) FROM t WHERE c LIKE 'c1%';
SELECT id, s, note FROM t ORDER BY note DESC, id LIMIT 7;
SELECT c, LENGTH(note) FROM t WHERE b = 6 ORDER BY s, c LIMIT 7;
BEGIN;
UPDATE t SET note = 'changed', a = 1000 + id WHERE id BETWEEN 100 AND 105;
INSERT INTO t (id, b) VALUES (4000, 1), (4001, 2);
DELETE FROM t WHERE id BETWEEN 110 AND 114;
SELECT note FROM t WHERE id = 103;
SELECT a, c FROM t WHERE id BETWEEN 98 AND 116 ORDER BY id;
SELECT c, note FROM t WHERE a BETWEEN 1000 AND 2000 ORDER BY id DESC;
SELECT COUNT(*), COUNT(note), SUM(a) FROM t;
SELECT COUNT(*) FROM t WHERE id BETWEEN 90 AND 120;
SELECT COUNT(*) FROM t WHERE a BETWEEN 1000 AND 1104;
SELECT s FROM t WHERE id > 3990 ORDER BY id DESC;
ROLLBACK;
SELECT COUNT(*), COUNT(note), SUM(a) FROM t;
CREATE TABLE copied SELECT c, note FROM t WHERE id < 50;
SELECT COUNT(*), SUM(LENGTH(note)) FROM copied;
INSERT INTO copied SELECT s, c FROM t WHERE a = 3;
SELECT COUNT(*), SUM(LENGTH(note)), MIN(c) FROM copied;
SELECT (SELECT note FROM t y WHERE y.id = x.id + 1), x.c FROM t x WHERE x.id BETWEEN 20 AND 23 ORDER BY x.id;
SELECT EXISTS (SELECT * FROM t y WHERE y.a = x.b AND y.note LIKE 'Z%') FROM t x WHERE x.id < 6 ORDER BY x.id;

# Counts.
SELECT COUNT(*) FROM t;
SELECT COUNT(*) FROM t WHERE a = 7;
SELECT COUNT(*) FROM t WHERE a > 7 AND a <= 9;
SELECT COUNT(*) FROM t WHERE s = 's7';
SELECT COUNT(*) FROM t WHERE id > 100 AND id < 2000;
SELECT COUNT(a) FROM t WHERE id > 100;
SELECT COUNT(*) FROM t LOCK IN SHARE MODE;
SELECT COUNT(*) FROM t FOR UPDATE;
SELECT COUNT(*) FROM t x, t y WHERE x.id < 10 AND y.id < 20;
CREATE VIEW v AS SELECT id, a, b FROM t;
CREATE VIEW vv AS SELECT v.id, v.a FROM v;
PREPARE counts FROM 'SELECT COUNT(*) FROM t';
PREPARE sums FROM 'SELECT COUNT(*), SUM(a) FROM vv';
EXECUTE counts;
EXECUTE sums;
BEGIN;
DELETE FROM t WHERE id > 2500;
INSERT INTO t (id, b) VALUES (9000, 1);
EXECUTE counts;
EXECUTE sums;
SELECT COUNT(*) FROM v;
SELECT COUNT(*) FROM vv;
SELECT COUNT(*) FROM vv x, v y;
SELECT COUNT(*), SUM(a) FROM t;
SELECT COUNT(*), MAX(id), MIN(a) FROM t;
SELECT COUNT(*) FROM (SELECT * FROM t) d;
SELECT COUNT(*) FROM (SELECT DISTINCT a FROM t) d;
SELECT (SELECT COUNT(*) FROM t), COUNT(*), SUM(a) FROM t WHERE id < 100;
SELECT id, (SELECT COUNT(*) FROM v) FROM t WHERE id < 4 ORDER BY id;
SELECT id FROM t WHERE a < (SELECT COUNT(*) DIV 1000 FROM vv) AND id < 300 ORDER BY id;
SELECT COUNT(*) FROM t WHERE id IN (SELECT a FROM v);
SELECT COUNT(*) FROM t UNION ALL SELECT COUNT(*) FROM v UNION ALL SELECT COUNT(*) FROM t x JOIN t y ON x.id = y.id;
SELECT COUNT(*) FROM t HAVING COUNT(*) > 5;
SELECT COUNT(*) FROM t WHERE 1;
SELECT SUM(a), COUNT(*) FROM t WHERE id BETWEEN 2400 AND 2600;
ROLLBACK;
EXECUTE counts;
EXECUTE sums;
DROP VIEW v, vv;

# Ranges that start and end anywhere in blocks, in both directions, over the rows and over an index;
# then with newer rows among them.
CREATE TABLE big (id INT PRIMARY KEY, k INT, digits CHAR(40), text VARCHAR(80), KEY (k));
INSERT INTO big SELECT seq * 3, seq * 7919 % 60013, LPAD(CRC32(seq), 40, '0'), CONCAT('text ', MD5(seq)) FROM seq_1_to_60000;
FLUSH ENGINE LOGS;
DELIMITER //
CREATE PROCEDURE ranges(step INT)
BEGIN
    DECLARE low INT DEFAULT 0;
    DECLARE width INT DEFAULT 1;
    DECLARE up, down, keys_up, keys_down, of_keys BIGINT DEFAULT 0;
    WHILE low < 180100 DO
        SET up = up + (SELECT COALESCE(SUM(CRC32(CONCAT(id, digits))), 0) FROM big WHERE id BETWEEN low AND low + width);
        SET down = down + (SELECT COALESCE(SUM(CRC32(CONCAT(id, text))), 0) FROM
            (SELECT id, text FROM big FORCE INDEX (PRIMARY) WHERE id >= low AND id < low + width ORDER BY id DESC LIMIT 10000) x);
        SET keys_up = keys_up + (SELECT COALESCE(SUM(k), 0) FROM big FORCE INDEX (k) WHERE k > low DIV 3 AND k <= low DIV 3 + width);
        SET keys_down = keys_down + (SELECT COALESCE(SUM(id), 0) FROM
            (SELECT id FROM big FORCE INDEX (k) WHERE k < low DIV 3 + width AND k >= low DIV 3 ORDER BY k DESC LIMIT 10000) x);
        SET of_keys = of_keys + (SELECT COUNT(text) FROM big FORCE INDEX (k) WHERE k BETWEEN low DIV 3 AND low DIV 3 + width % 50 AND id % 2 = 0);
        SET low = low + step, width = width * 5 % 1009 + 1;
    END WHILE;
    SELECT up, down, keys_up, keys_down, of_keys;
END//
DELIMITER ;
CALL ranges(701);
UPDATE big SET text = REVERSE(text), k = k + 1 WHERE id % 97 = 0;
DELETE FROM big WHERE id % 89 = 0;
CALL ranges(1409);
BEGIN;
UPDATE big SET digits = 'own' WHERE id % 501 = 0;
DELETE FROM big WHERE id % 1203 = 0;
CALL ranges(2803);
ROLLBACK;
CALL ranges(2803);
DROP PROCEDURE ranges;
DROP TABLE big;

# Tables without a primary key, and with partitions.
CREATE TABLE heap (a INT, b VARCHAR(20), note TEXT, KEY (a), KEY (b));
INSERT INTO heap SELECT seq % 20, CONCAT('b', seq % 13), REPEAT('x', seq % 40) FROM seq_1_to_1000;
SELECT COUNT(*), SUM(LENGTH(note)) FROM heap FORCE INDEX (a) WHERE a BETWEEN 3 AND 5 AND a <> 4;
SELECT b, LENGTH(note) FROM heap FORCE INDEX (b) WHERE b LIKE 'b1%' AND b > 'b11' AND LENGTH(note) > 35 ORDER BY 1, 2;
SELECT LENGTH(note) FROM heap WHERE a = 7 OR b = 'b3' ORDER BY 1 LIMIT 20;
UPDATE heap SET note = 'z' WHERE a = 7 AND b = 'b7';
SELECT note, COUNT(*) FROM heap WHERE a = 7 GROUP BY note ORDER BY 1;
CREATE TABLE parted (id INT, a INT, note TEXT, PRIMARY KEY (id), KEY (a)) PARTITION BY HASH (id) PARTITIONS 4;
INSERT INTO parted SELECT seq, seq % 20, REPEAT('p', seq % 50) FROM seq_1_to_1000;
SELECT id, LENGTH(note) FROM parted FORCE INDEX (a) WHERE a BETWEEN 3 AND 5 AND id % 7 = 0 ORDER BY a, id;
SELECT a, MIN(id), MAX(id) FROM parted WHERE a > 14 GROUP BY a;
SELECT a FROM parted WHERE a < 3 ORDER BY a DESC LIMIT 3;
SELECT COUNT(*) FROM parted WHERE a = 3;
SELECT COUNT(*) FROM parted;
SET optimizer_switch = 'mrr=on,mrr_sort_keys=on,mrr_cost_based=off', join_cache_level = 8;
SELECT x.id, LENGTH(x.note) FROM parted x JOIN heap y ON x.a = y.a WHERE y.b = 'b3' AND x.id < 50 ORDER BY 1, 2;
SET optimizer_switch = DEFAULT, join_cache_level = DEFAULT;
DROP TABLE t, copied, heap, parted;

# Index merge; one of the indexes is over a prefix and is read in several ranges.
CREATE TABLE merged (id INT PRIMARY KEY, p INT, v VARCHAR(12), x TEXT, KEY p(p), KEY v(v(3)), KEY d(v(2) DESC, p), KEY x(x(2)));
INSERT INTO merged SELECT seq, seq, IF(seq%100=5,'c',IF(seq%100=7,'Ax',CONCAT('w',seq))), CONCAT('x',seq%7) FROM seq_1_to_300; ANALYZE TABLE merged;
SELECT id,v FROM merged WHERE p=120 OR v IN ('Ax','c') ORDER BY id; SELECT COUNT(*) FROM merged IGNORE INDEX(v) WHERE p=120 OR v LIKE 'A%' OR v LIKE 'c%';
SELECT COUNT(*) FROM merged WHERE p<4 OR x IN ('x1','x3') OR v IN ('c','w77'); SELECT COUNT(*) FROM merged FORCE INDEX(v) WHERE v IN ('c','Ax','w1'); SELECT COUNT(*) FROM merged FORCE INDEX(v);
SET optimizer_switch='index_merge_sort_intersection=on'; SELECT id FROM merged FORCE INDEX(p,v) WHERE p<300 AND v IN ('ax','c','w33') ORDER BY id; SET optimizer_switch='index_merge_sort_intersection=off';
SET optimizer_switch='mrr=on,mrr_cost_based=off'; SELECT id,v FROM merged WHERE p=120 OR v IN ('Ax','c') ORDER BY id; SET optimizer_switch=DEFAULT; DROP TABLE merged;
